"""Estimates stay near the vocabulary's own counts, on the high side."""

from __future__ import annotations

from policies.estimate import estimate
from proxy.tokenizer import Tokenizer

TEXT = '''def tide(level, when=None):
    """How high the water stands at `when`."""
    return gauges["north"].read(level)[0] * 1000 if when is None else history[when:when + 86400]
{"order_id": "#W2378156", "items": [{"name": "Desk Lamp", "price": 135.24}]}
src/app/models/user.py:142:    raise ValidationError(f"{name} is not a number")
'''


def test_an_estimate_is_near_and_rather_high() -> None:
    count = Tokenizer().count
    for line in TEXT.splitlines():
        assert 0.9 * count(line) <= estimate(line) <= 1.6 * count(line) + 2
    assert estimate("") == 0
    assert estimate("日本語") == 3
