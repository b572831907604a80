"""Which lines of a text stand in other items as well: an index of lines that only grows. Pure and deterministic.

Line numbers that a reader put before the lines (`cat -n`, editors) do not count as part of them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

MIN_LINES = 3
MAX_LINES = 20_000
"""Longer texts are indexed as far as this."""
INDEXED_LINES = 400_000
"""Beyond it the oldest items leave the index: they have left the window long before."""
PLACES_TRIED = 6
"""Where a line stands more often, the newest places are looked at."""
TELLING_CHARS = 4
"""Shorter lines (blank ones, brackets) stand everywhere: a run may hold them, never begin with them."""

_HIDDEN = -1
_LINE_BITS = 20
_LINE_MASK = (1 << _LINE_BITS) - 1
_NUMBER = re.compile(r"^\s*(\d{1,7})(?:[:\u2192\t-]| ?\| ?|  )")


@dataclass(frozen=True, slots=True)
class Lines:
    """A text by lines: as they are, the number that was printed before each (-1: none), and a key for the rest."""

    raw: tuple[str, ...]
    numbers: tuple[int, ...]
    keys: tuple[int, ...]
    is_telling: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Lines `start` to `stop` (exclusive) of the text asked about are lines `at`… of `item`."""

    start: int
    stop: int
    item: str
    at: int


def read_lines(text: str) -> Lines:
    """The lines of a text. Its numbers count only where most lines have one and they count up."""
    raw = tuple(text.split("\n"))
    matches = [_NUMBER.match(line) for line in raw]
    found = [int(match[1]) if match else -1 for match in matches]
    steps = sum(after == before + 1 for before, after in pairwise(found) if before >= 0)
    is_numbered = steps >= MIN_LINES - 1 and 2 * steps >= len(raw)
    bare = [line[match.end() :] if match and is_numbered else line for line, match in zip(raw, matches, strict=True)]
    return Lines(
        raw,
        tuple(found) if is_numbered else (-1,) * len(raw),
        tuple(_key(line) for line in bare),
        tuple(len(line.strip()) >= TELLING_CHARS for line in bare),
    )


def _key(line: str) -> int:
    return int.from_bytes(blake2b(line.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


class LineIndex:
    """Knows every line of the items given to it, in the order in which they came.

    Most lines stand in one place and there are very many, so a place is one number, the item's ordinal
    and the line in it, and only a line with several has a tuple of them.
    """

    def __init__(self) -> None:
        self._places: dict[int, int | tuple[int, ...]] = {}
        self._items: dict[int, tuple[str, array[int]]] = {}  # by ordinal: id, and the keys of the lines it shows
        self._count = 0
        self._lines = 0

    def add(self, item: str, lines: Lines, parts: Sequence[range] | None = None) -> None:
        """Index an item's lines; only those in `parts` when given, for an item that shows no others itself."""
        shown = range(min(len(lines.keys), MAX_LINES))
        keys = array("q", [_HIDDEN]) * len(shown)
        self._count += 1
        for part in parts if parts is not None else (shown,):
            for at in part:
                if at not in shown:
                    break
                key = keys[at] = lines.keys[at]
                if lines.is_telling[at]:
                    place = self._count << _LINE_BITS | at
                    known = self._places.get(key)
                    self._places[key] = place if known is None else (*_all(known), place)[-PLACES_TRIED:]
        self._items[self._count] = (item, keys)
        self._lines += len(keys)
        while self._lines > INDEXED_LINES and len(self._items) > 1:
            self._forget(next(iter(self._items)))

    def _forget(self, ordinal: int) -> None:
        _, keys = self._items.pop(ordinal)
        self._lines -= len(keys)
        for key in set(keys):
            known = self._places.get(key)
            left = tuple(place for place in _all(known) if place >> _LINE_BITS != ordinal) if known is not None else ()
            if not left:
                self._places.pop(key, None)
            else:
                self._places[key] = left[0] if len(left) == 1 else left

    def runs(self, lines: Lines, *, but: str = "") -> list[Run]:
        """Maximal runs of at least three lines that stand in one indexed item, in order, from the first line on.

        Of several places the longest run is taken, then the newest. `but` is an item to pass over:
        so an indexed item can be asked which of its lines stand elsewhere.
        """
        found: list[Run] = []
        start = 0
        keys = lines.keys[:MAX_LINES]
        while start < len(keys):
            run = self._longest(keys, lines.is_telling, start, but)
            if run is None:
                start += 1
            else:
                found.append(run)
                start = run.stop
        return found

    def _longest(self, keys: Sequence[int], is_telling: Sequence[bool], start: int, but: str) -> Run | None:
        if not is_telling[start]:
            return None
        best: Run | None = None
        for place in reversed(_all(self._places.get(keys[start], ()))):
            (item, other), at = self._items[place >> _LINE_BITS], place & _LINE_MASK
            if item == but:
                continue
            length = 1
            while (
                start + length < len(keys) and at + length < len(other) and keys[start + length] == other[at + length]
            ):
                length += 1
            while length and not is_telling[start + length - 1]:
                length -= 1
            if length >= MIN_LINES and (best is None or length > best.stop - best.start):
                best = Run(start, start + length, item, at)
        return best


def _all(places: int | tuple[int, ...]) -> tuple[int, ...]:
    return (places,) if isinstance(places, int) else places
