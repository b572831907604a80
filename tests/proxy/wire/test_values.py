"""Tool texts read as JSON."""

from __future__ import annotations

import pytest

from proxy.core.shape import NumberText
from proxy.wire.values import MAX_CHARS, parse_value


def test_numbers_keep_their_spelling() -> None:
    value = parse_value('{"id": 1234567890123456789012345, "price": 0.10, "far": 1e400, "odd": NaN, "n": null}')
    assert value == {"id": "1234567890123456789012345", "price": "0.10", "far": "1e400", "odd": "NaN", "n": None}
    assert isinstance(value, dict) and isinstance(value["price"], NumberText)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1} and more', "[" * 100_000, "x" * (MAX_CHARS + 1)])
def test_what_is_no_json_is_none(text: str) -> None:
    assert parse_value(text) is None


def test_half_pairs_and_control_characters_are_read() -> None:
    assert parse_value('["\\ud800", "a\nb"]') == ["\ud800", "a\nb"]
