"""Arguments of expand calls, as loosely as models write them."""

from __future__ import annotations

import pytest

from proxy.core.expanding import Ask
from proxy.wire.asks import read_ask


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('{"id": "abcdefgh2345"}', Ask("abcdefgh2345")),
        ('{"id": "id abcdefgh2345", "lines": "10-40"}', Ask("abcdefgh2345", (10, 40))),
        ('{"id": "abcdefgh2345", "lines": [10, 40]}', Ask("abcdefgh2345", (10, 40))),
        ('{"id": "abcdefgh2345", "lines": 7, "query": null}', Ask("abcdefgh2345", (7, 7))),
        ('{"id": "abcdefgh2345", "lines": "", "query": "x"}', Ask("abcdefgh2345", None, "x")),
        ('{"id": "abcdefgh2345", "max_tokens": 50.0}', Ask("abcdefgh2345", max_tokens=50)),
        ('{"id": "abcdefgh2345", "max_tokens": -1, "extra": {}}', Ask("abcdefgh2345")),
    ],
)
def test_what_is_asked_for(arguments: str, wanted: Ask) -> None:
    assert read_ask(arguments) == wanted


@pytest.mark.parametrize(
    "arguments", ["", "{", "[]", '"x"', '{"id": 5}', '{"id": " "}', '{"id": "a", "lines": "some"}']
)
def test_what_cannot_be_read_says_why(arguments: str) -> None:
    assert read_ask(arguments).fault.startswith("error: ")
