"""Reads a tool's text as JSON, numbers as they are spelt. Never fails: what is no JSON is None."""

from __future__ import annotations

import json

from proxy.core.shape import NumberText

_DECODER = json.JSONDecoder(parse_int=NumberText, parse_float=NumberText, parse_constant=NumberText, strict=False)
MAX_CHARS = 8_000_000
"""Longer texts are not parsed: the values would take many times their size."""


def parse_value(text: str) -> object:
    """The JSON value that the whole text is, or None where it is none (or null)."""
    if len(text) > MAX_CHARS:
        return None
    try:
        value: object = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return value
