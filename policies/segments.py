"""Splits an item's text into the segments that a selector may keep one by one: lines, and subtrees of JSON. Pure.

Deterministic and defined for every text. The numbers of segments are part of stored plans: a change
here changes what an old plan's numbers mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from policies.encoded import encoded_spans

LONG_LINE = 400
"""Longer lines are cut at a space or comma."""
SUBTREE = 240
"""JSON of more characters is walked down to parts of at most so many."""
MAX_DEPTH = 12
MAX_LINES_OF_JSON = 2
GAP = "…"

SegmentKind = Literal["line", "json", "call", "data"]

_SPACE = re.compile(r"[ \t\n\r]*")
_CALL = re.compile(r"([A-Za-z_][\w.:-]{0,127})\((?=[{\[])")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text: `text[start:end]`, or what is written there in escapes (a line inside a JSON string).

    `keys` says where in a JSON value it stands (`orders.0.items`), "" outside JSON. `tool` is the
    name of the call whose arguments it belongs to.
    """

    text: str
    start: int
    end: int
    kind: SegmentKind = "line"
    keys: str = ""
    tool: str = ""


def split(text: str) -> tuple[Segment, ...]:
    """The segments of a text, in order. Blank lines belong to none; encoded data is one segment, never a part."""
    return tuple(_split(text))


def excerpt_body(text: str, segments: Sequence[Segment], keep: Sequence[int], gap: str = GAP) -> str:
    """The kept segments, word for word, with a gap mark where something is missing; the text itself when all are kept.

    A segment of JSON is led by the keys above it wherever they differ from those of the line before.
    """
    if len(keep) == len(segments):
        return text
    lines: list[str] = []
    following = 0
    keys = ""
    for index in keep:
        segment = segments[index]
        if index > following:
            lines.append(gap)
            keys = ""
        lead = f"{segment.keys}: " if segment.keys and segment.keys != keys else ""
        lines.append(lead + segment.text)
        keys = segment.keys
        following = index + 1
    if following < len(segments):
        lines.append(gap)
    return "\n".join(lines)


def _split(text: str) -> Iterator[Segment]:
    if text.count("\n") < MAX_LINES_OF_JSON:
        stripped = text.strip()
        if len(stripped) > SUBTREE and stripped[0] in "{[":
            walked = _walk_json(text, text.index(stripped[0]), len(text.rstrip()), "")
            if walked is not None:
                yield from walked
                return
    spans = encoded_spans(text)
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        while spans and spans[0][1] <= start:
            spans.pop(0)
        walked = _structured(text, start, end)
        if walked is not None:
            yield from walked
        elif spans and spans[0][0] < end:
            # The words around a run of data are segments of their own; the run may reach over many lines.
            yield from _pieces(text, start, spans[0][0])
            yield Segment(text[spans[0][0] : spans[0][1]], *spans[0], "data")
            start = spans[0][1]
            continue
        else:
            yield from _pieces(text, start, end)
        start = end + 1


def _structured(text: str, start: int, end: int) -> list[Segment] | None:
    """The segments of a line that is JSON of some length, or a call; None when it is neither."""
    if end - start > SUBTREE and text[start] in "{[":
        return _walk_json(text, start, end, "")
    if text[end - 1 : end] == ")":
        match = _CALL.match(text, start, end)
        if match is not None:
            return _call(text, match.end(), end, match.group(1), start)
    return None


def _pieces(text: str, start: int, end: int) -> Iterator[Segment]:
    """Text without a line break, in pieces of bounded length."""
    while start < end:
        stop = end
        if end - start > LONG_LINE:
            cut = max(text.rfind(" ", start, start + LONG_LINE), text.rfind(",", start, start + LONG_LINE))
            stop = cut + 1 if cut > start + LONG_LINE // 4 else start + LONG_LINE
        piece = text[start:stop]
        if piece.strip():
            yield Segment(piece, start, stop)
        start = stop


def _call(text: str, start: int, end: int, tool: str, line_start: int) -> list[Segment] | None:
    """A call as readable text: `name({...})`. Short ones are one segment, others the lines of their values."""
    try:
        _, stop = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    if stop != end - 1:
        return None
    if end - line_start <= SUBTREE and "\\n" not in text[start:end]:
        return [Segment(text[line_start:end], line_start, end, "call", "", tool)]
    return _walk_json(text, start, stop, tool)


def _walk_json(text: str, start: int, end: int, tool: str) -> list[Segment] | None:
    """The largest subtrees that are small enough, each with its key; None when the text is no JSON."""
    try:
        _, stop = _DECODER.raw_decode(text, start)
        if text[stop:end].strip():
            return None
        walker = _Walker(text, tool)
        walker.value(start, stop, "", start, 0)
    except (ValueError, RecursionError, IndexError):
        return None
    return walker.segments


class _Walker:
    """Walks one JSON value by position, so that what is kept is the very text."""

    def __init__(self, text: str, tool: str) -> None:
        self.text = text
        self.tool = tool
        self.segments: list[Segment] = []

    def value(self, start: int, end: int, keys: str, lead: int, depth: int) -> None:
        """A value at start..end; `lead` is where its key begins."""
        first = self.text[start]
        is_small = end - start <= SUBTREE
        if first == '"' and (not is_small or (self.tool and "\\n" in self.text[start:end])):
            self._string(start, end, keys, lead)
        elif is_small and not (self.tool and depth == 0):
            self._add(lead, end, keys)
        elif first == "{" and depth < MAX_DEPTH:
            self._object(start, keys, depth)
        elif first == "[" and depth < MAX_DEPTH:
            self._array(start, keys, depth)
        else:
            self._add(lead, end, keys)

    def _object(self, start: int, keys: str, depth: int) -> None:
        at = _skip(self.text, start + 1)
        while self.text[at] != "}":
            lead = at
            key, at = _DECODER.raw_decode(self.text, at)
            at = _skip(self.text, _skip(self.text, at) + 1)
            _, end = _DECODER.raw_decode(self.text, at)
            is_leaf = self.text[at] not in '{["' or end - at <= SUBTREE
            inner = keys if is_leaf and not (self.tool and self.text[at] == '"') else _path(keys, key)
            self.value(at, end, inner, lead, depth + 1)
            at = _skip(self.text, end)
            if self.text[at] == ",":
                at = _skip(self.text, at + 1)

    def _array(self, start: int, keys: str, depth: int) -> None:
        at = _skip(self.text, start + 1)
        number = 0
        first = -1  # where a row of small plain values begins: they stand together
        last = at
        while self.text[at] != "]":
            _, end = _DECODER.raw_decode(self.text, at)
            is_plain = self.text[at] not in "{[" and end - at <= SUBTREE
            if first >= 0 and (not is_plain or end - first > SUBTREE):
                self._add(first, last, keys)
                first = -1
            if is_plain:
                first = at if first < 0 else first
            else:
                self.value(at, end, _path(keys, str(number)), at, depth + 1)
            last = end
            number += 1
            at = _skip(self.text, end)
            if self.text[at] == ",":
                at = _skip(self.text, at + 1)
        if first >= 0:
            self._add(first, last, keys)

    def _string(self, start: int, end: int, keys: str, lead: int) -> None:
        """A long string: the lines that it says, each a segment; encoded data stays one."""
        said, _ = _DECODER.raw_decode(self.text, start)
        spans = encoded_spans(said)
        if 2 * sum(stop - begin for begin, stop in spans) > len(said):
            self._add(lead, end, keys, "data")
            return
        kind: SegmentKind = "call" if self.tool else "json"
        at = 0
        while at < len(said):
            stop = said.find("\n", at)
            stop = len(said) if stop < 0 else stop
            while spans and spans[0][1] <= at:
                spans.pop(0)
            if spans and spans[0][0] < stop:
                parts = [piece.text for piece in _pieces(said, at, spans[0][0])]
                parts.append(said[slice(*spans[0])])
                at = spans[0][1]
            else:
                parts = [piece.text for piece in _pieces(said, at, stop)]
                at = stop + 1
            self.segments += [Segment(part, start, end, kind, keys, self.tool) for part in parts]

    def _add(self, start: int, end: int, keys: str, kind: SegmentKind | None = None) -> None:
        made: SegmentKind = kind or ("call" if self.tool else "json")
        self.segments.append(Segment(self.text[start:end], start, end, made, keys, self.tool))


def _path(keys: str, key: str) -> str:
    return f"{keys}.{key}" if keys else key


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at
