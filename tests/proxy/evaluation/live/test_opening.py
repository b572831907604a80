"""Keys, prices and what was spent before; and what is wrong with the words given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.core.pricing import Rates
from proxy.errors import ConfigError
from proxy.evaluation.live.opening import SPENT, opened

AWAY = "https://api.openai.com/v1"
HERE = "http://127.0.0.1:8080/v1"


def test_a_known_model_has_its_listed_price_and_its_key() -> None:
    series = opened(AWAY, "gpt-4.1-mini", key_env="K", cost_limit=2.0, repeats=3, environ={"K": "s3cret"})
    assert (series.endpoint.url, series.endpoint.model, series.endpoint.key) == (AWAY, "gpt-4.1-mini", "s3cret")
    rates = series.purse.facts.rates
    assert rates is not None and 0 < rates.cached < rates.input < rates.output
    assert (series.purse.limit, series.purse.spent, series.repeats) == (2.0, 0.0, 3)
    assert "s3cret" not in repr(series)


def test_given_prices_win_and_this_machine_is_free() -> None:
    assert opened(AWAY, "gpt-4.1-mini", prices="1,0.5,4", environ={}).purse.facts.rates == Rates(1.0, 0.5, 1.0, 4.0)
    assert opened(HERE, "gpt-4.1-mini", environ={}).purse.facts.rates == Rates(0.0, 0.0, 0.0, 0.0)


def test_what_was_spent_before_counts(tmp_path: Path) -> None:
    (tmp_path / SPENT).write_text("0.25\n0.5\n")
    purse = opened(HERE, "m", folder=tmp_path, environ={}).purse
    assert purse.spent == 0.75 and purse.book is not None
    purse.book(0.25)
    assert opened(HERE, "m", folder=tmp_path, environ={}).purse.spent == 1.0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"url": AWAY, "model": ""}, "which model"),
        ({"url": AWAY, "model": "gpt-4.1-mini", "key_env": "K"}, "K is empty"),
        ({"url": AWAY, "model": "nobody-knows-it"}, "no price"),
        ({"url": AWAY, "model": "m", "prices": "1,2"}, "no prices"),
        ({"url": AWAY, "model": "m", "prices": "1,2,-3"}, "no prices"),
        ({"url": AWAY, "model": "m", "prices": "1,2,nan"}, "no prices"),
        ({"url": "nowhere", "model": "m"}, "upstream.url"),
    ],
)
def test_what_is_wrong(words: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        opened(**words, environ={})
    assert caught.value.hint
