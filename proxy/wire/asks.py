"""Reads the arguments of an expand call, as loosely as models write them."""

from __future__ import annotations

from typing import Any

from proxy.core.expanding import Ask, clean_id, parse_lines
from proxy.wire import jsonbytes


def read_ask(arguments: str) -> Ask:
    """What the call asks for, or why it cannot be read: for the model, in plain words."""
    try:
        value = jsonbytes.loads(arguments or "{}")
    except ValueError:
        return Ask(fault='error: the arguments are not JSON; send {"id": "..."}')
    if not isinstance(value, dict):
        return Ask(fault='error: the arguments are not an object; send {"id": "..."}')
    id = value.get("id")
    if not isinstance(id, str) or not id.strip():
        return Ask(fault="error: no id given; it stands next to what was left out")
    query = value.get("query")
    lines = value.get("lines")
    span = _span(lines)
    if span is None and lines not in (None, "", [], "all"):
        return Ask(fault="error: lines must look like 10-40")
    most = value.get("max_tokens")
    return Ask(
        id=clean_id(id),
        lines=span,
        query=query if isinstance(query, str) else "",
        max_tokens=_positive(most),
    )


def _positive(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value < 10**9 else None


def _span(lines: Any) -> tuple[int, int] | None:
    if isinstance(lines, list):
        numbers = [n for n in lines if isinstance(n, int) and not isinstance(n, bool) and n > 0]
        return (min(numbers), max(numbers)) if numbers and len(numbers) == len(lines) else None
    if isinstance(lines, int) and not isinstance(lines, bool):
        return (lines, lines) if lines > 0 else None
    return parse_lines(lines) if isinstance(lines, str) else None
