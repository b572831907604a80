"""The shape of a parsed JSON value: keys, types, array lengths, and the rows and fields that given words match. Pure.

Short scalars of a lone object stand as they are. What repeats is told once, so the shape of any value is small.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from proxy.core.texts import WORD, clip, is_encoded, size_words

DEPTH = 4
KEYS_SHOWN = 24
SAMPLES = 40
ROWS_SHOWN = 6
ROW_CHARS = 240
MAX_DEPTH = 32
EXACT_CHARS = 40
SHAPE_CHARS = 2_000
"""A shape that is longer is told less deep."""


class NumberText(str):
    """A number as it is spelt: 25 digits stay 25 digits, and 0.10 stays 0.10."""

    __slots__ = ()


def shape(value: object, depth: int = DEPTH) -> str:
    """The shape in one line."""
    while True:
        made = _shape(value, depth, is_exact=True)
        if len(made) <= SHAPE_CHARS or depth <= 1:
            return made
        depth -= 1


def matches(value: object, terms: Container[str], limit: int = ROWS_SHOWN) -> tuple[list[str], int]:
    """Rows and fields that hold one of `terms`, each with its place (`orders.3: …`), and how many there are in all.

    A row is the smallest object that is not longer than a row may be, so that a match comes with what it belongs to.
    """
    found: list[str] = []
    count = 0
    for place, row in _rows(value, ""):
        if not any(word in terms for word in WORD.findall(row)):
            continue
        count += 1
        if len(found) < limit:
            found.append(f"{place}: {row}" if place else row)
    return found, count


def _rows(value: object, place: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The largest parts that fit a row, as compact text; longer strings are cut. Stops at a depth that no one reads."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, Mapping | list):
        text = _compact(value, ROW_CHARS) if depth else ""
        if text:
            yield place, text
            return
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in pairs:
            yield from _rows(inner, f"{place}.{key}" if place else str(key), depth + 1)
    else:
        yield place, _scalar(value)


def _compact(value: object, room: int) -> str:
    """The value as text, "" when it takes more than `room` characters."""
    if room <= 0:
        return ""
    if isinstance(value, Mapping):
        parts, opening, closing = [], "{", "}"
        for key, inner in value.items():
            text = _compact(inner, room - len(str(key)) - 4)
            room -= len(str(key)) + len(text) + 4
            if not text or room < 0:
                return ""
            parts.append(f"{key}: {text}")
    elif isinstance(value, list):
        parts, opening, closing = [], "[", "]"
        for inner in value:
            text = _compact(inner, room - 2)
            room -= len(text) + 2
            if not text or room < 0:
                return ""
            parts.append(text)
    elif isinstance(value, str) and len(value) > room:
        return ""
    else:
        text = _scalar(value)
        return text if len(text) <= room else ""
    return f"{opening}{', '.join(parts)}{closing}"


def _scalar(value: object) -> str:
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, str):
        if is_encoded(value):
            return f"string, {size_words(len(value))}"
        return f'"{value}"' if len(value) <= ROW_CHARS else f'"{clip(value, ROW_CHARS)}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _shape(value: object, depth: int, *, is_exact: bool) -> str:
    if isinstance(value, Mapping):
        return _shape_object(value, depth, is_exact=is_exact)
    if isinstance(value, NumberText):
        return str(value) if is_exact and len(value) <= EXACT_CHARS else "number"
    if isinstance(value, str):
        if is_exact and len(value) <= EXACT_CHARS and "\n" not in value:
            return f'"{value}"'
        return f"string, {size_words(len(value))}" if is_exact else "string"
    if isinstance(value, list | tuple):
        return _shape_array(value, depth)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value] if is_exact or value is None else "bool"
    return str(value) if is_exact else "number"


def _shape_object(value: Mapping[object, object], depth: int, *, is_exact: bool) -> str:
    if depth <= 0:
        return f"{{{len(value)} keys}}"
    shown: list[str] = []
    for number, (key, inner) in enumerate(value.items()):
        if number == KEYS_SHOWN:
            shown.append(f"… {len(value) - KEYS_SHOWN} more keys")
            break
        shown.append(f"{clip(str(key), 60)}: {_shape(inner, depth - 1, is_exact=is_exact)}")
    return "{" + ", ".join(shown) + "}"


def _shape_array(value: Sequence[object], depth: int) -> str:
    if not value:
        return "[]"
    if depth <= 0:
        return f"[{len(value):,} items]"
    # Elements of one kind are told by one of them; optional keys come from the first of the others.
    samples = list(value[:SAMPLES])
    if all(isinstance(sample, Mapping) for sample in samples):
        merged: dict[object, object] = {}
        for sample in samples:
            for key, inner in sample.items() if isinstance(sample, Mapping) else ():
                merged.setdefault(key, inner)
        return f"[{len(value):,} × {_shape(merged, depth - 1, is_exact=False)}]"
    kinds = sorted({_shape(sample, depth - 1, is_exact=False) for sample in samples})
    return f"[{len(value):,} × {' | '.join(kinds[:4])}]"
