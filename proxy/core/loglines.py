"""Which lines of an output tell most of it: its ends, lines that report errors, lines with given words. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from proxy.core.texts import WORD, clip, size_words, without_encoded

CLOSING_LINES = 5
CLOSING_CHARS = 600
ERROR_LINES = 3
ERROR_LINE_CHARS = 200
EDGE_LINES = 4
LONG_LINE = 400
NEIGHBOURS = 1
SAMPLES = 12

_ERROR_LINE = re.compile(
    r"\b(?:errors?|exceptions?|traceback|fatal|panic(?:ked)?|critical|failed|failure|fails|segfault|undefined|denied)\b"
    r"|\b\w+(?:Error|Exception)\b|^E  ",
    re.IGNORECASE,
)
_ERROR_WORDS = (
    "error",
    "exception",
    "traceback",
    "fatal",
    "panic",
    "critical",
    "fail",
    "segfault",
    "undefined",
    "denied",
)
"""One of them is in every ASCII line that the pattern finds, or it begins with an E."""
_REPORTED_ERROR = re.compile(
    r"^E   |(?<![\w.'\"])(?:ERROR|FATAL|CRITICAL|PANIC)(?![\w'\"(]|\s*=)|^(?:\w+\.)*[A-Z]\w*(?:Error|Exception): "
)
"""A line by which a log or a test run reports an error; not what code or prose says about errors."""
_MAY_REPORT = ("ERROR", "FATAL", "CRITICAL", "PANIC", "Error: ", "Exception: ", "\nE   ")
_LINES_LOOKED_AT = 200


def error_lines(text: str) -> list[str]:
    """The first and the last of the lines that report an error, each once and of bounded length."""
    found: dict[str, None] = {}
    for start, stop in _lines_with(text, _MAY_REPORT):
        line = without_encoded(text[start : min(stop, start + 4 * ERROR_LINE_CHARS)])
        if _REPORTED_ERROR.search(line):
            found.setdefault(clip(line, ERROR_LINE_CHARS))
    lines = list(found)
    return lines if len(lines) <= ERROR_LINES else [lines[0], *lines[1 - ERROR_LINES :]]


def closing_lines(text: str, lines: int = CLOSING_LINES, chars: int = CLOSING_CHARS) -> str:
    """The last lines that are not blank, whole where they fit. Encoded data is named, not cut."""
    kept: list[str] = []
    room = chars
    for line in reversed(without_encoded(text[-20_000:]).rstrip().splitlines()):
        if not line.strip():
            continue
        if len(line) > room:
            if not kept:
                kept.append(f"…{line[-room:]}")
            break
        kept.append(line)
        room -= len(line)
        if len(kept) == lines:
            break
    return "\n".join(reversed(kept))


def choose_lines(lines: Sequence[str], terms: Container[str], room: int) -> list[int]:
    """Indices to keep, ascending: by kind of reason first, as far as `room` characters reach.

    Both ends, lines that speak of errors (the newest first), lines with one of `terms` and then
    their neighbours, and an even sample of the rest.
    """
    count = len(lines)
    edges = {*range(min(EDGE_LINES, count)), *range(max(0, count - EDGE_LINES), count)}
    errors = _speaking_of_errors(lines)
    named: list[int] = []
    if terms:
        named = [index for index, line in enumerate(lines) if any(word in terms for word in WORD.findall(line))]
    around = [
        index + step
        for index in named
        for step in range(-NEIGHBOURS, NEIGHBOURS + 1)
        if step and 0 <= index + step < count
    ]
    # Errors may be many and alike: a part of the room is left for what else there is.
    rounds = (
        (sorted(edges), room),
        (errors[::-1], room * 3 // 4),
        (named, room),
        (around, room),
        (range(0, count, max(2, count // SAMPLES)), room),
    )
    return fill(lines, rounds)


def _speaking_of_errors(lines: Sequence[str]) -> list[int]:
    """Where `_ERROR_LINE` finds something: it is slow, and in most outputs there is nothing that it could find."""
    lower = [line[:LONG_LINE].lower() for line in lines]
    whole = "\n".join(lower)
    words = [word for word in _ERROR_WORDS if word in whole]
    return [
        index
        for index, line in enumerate(lower)
        if (line[:3] == "e  " or not line.isascii() or any(word in line for word in words))
        and _ERROR_LINE.search(lines[index][:LONG_LINE])
    ]


def fill(lines: Sequence[str], rounds: Iterable[tuple[Iterable[int], int]]) -> list[int]:
    """Indices that fit, ascending: each round takes its own in order until all chosen reach its limit of characters."""
    chosen: set[int] = set()
    used = 0
    for indices, limit in rounds:
        for index in indices:
            size = min(len(lines[index]), LONG_LINE) + 1
            if index in chosen or used + size > limit:
                continue
            chosen.add(index)
            used += size
    return sorted(chosen)


def with_gaps(lines: Sequence[str], chosen: Sequence[int]) -> str:
    """The chosen lines in order; each gap says how many lines are missing."""
    out: list[str] = []
    following = 0
    for index in chosen:
        if index > following:
            out.append(_gap(index - following))
        out.append(short_line(lines[index]))
        following = index + 1
    if following < len(lines):
        out.append(_gap(len(lines) - following))
    return "\n".join(out)


def short_line(line: str) -> str:
    """The line, or its beginning and how much is missing. Encoded data is named, not cut."""
    line = without_encoded(line)
    if len(line) <= LONG_LINE:
        return line
    return f"{line[:LONG_LINE]}… [{size_words(len(line) - LONG_LINE)} of this line omitted]"


def _gap(count: int) -> str:
    return f"… {count:,} line{'' if count == 1 else 's'} omitted"


def _lines_with(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where lines lie that hold one of `words`, in order: of each word the first and the last that many."""
    spans = {_line_at(text, 0)}
    for word in words:
        first, last = text.find(word), text.rfind(word)
        for _ in range(_LINES_LOOKED_AT):
            if first < 0:
                break
            ahead, back = _line_at(text, first), _line_at(text, last)
            spans |= {ahead, back}
            if ahead >= back:
                break
            first, last = text.find(word, ahead[1]), text.rfind(word, 0, back[0])
    return sorted(spans)


def _line_at(text: str, position: int) -> tuple[int, int]:
    position += text.startswith("\n", position)
    stop = text.find("\n", position)
    return text.rfind("\n", 0, position) + 1, len(text) if stop < 0 else stop
