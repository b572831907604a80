"""Cuts a history into segments at natural seams, so that what is made of a segment can be kept for good. Pure.

A seam never splits a group, and growth at the end never moves an earlier one: a closed segment stays
what it is for as long as its messages stand in the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_CALLS = 40
MOST_CHARS = 48_000
LEAST_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class Passage:
    """What the cut depends on, for one item. `ends_subtask`: the work it belongs to is finished with it."""

    group: int
    is_user: bool = False
    calls: int = 0
    chars: int = 0
    ends_subtask: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """Items `start` to `stop`. The last one of a history is open: it may still grow."""

    start: int
    stop: int
    is_closed: bool

    @property
    def span(self) -> range:
        return range(self.start, self.stop)


def segments(
    history: Sequence[Passage],
    *,
    least_chars: int = LEAST_CHARS,
    most_chars: int = MOST_CHARS,
    most_calls: int = MOST_CALLS,
) -> list[Segment]:
    """The history's segments, in order and without gaps.

    A user turn or a finished subtask ends a segment of some size; inside endless work, size alone does.
    """
    found: list[Segment] = []
    start = 0
    for seam in _seams(history, least_chars, most_chars, most_calls):
        found.append(Segment(start, seam, True))
        start = seam
    if start < len(history):
        found.append(Segment(start, len(history), False))
    return found


def _seams(history: Sequence[Passage], least_chars: int, most_chars: int, most_calls: int) -> Iterator[int]:
    calls = chars = 0
    is_done = False  # something was finished in the group
    for index in range(1, len(history)):
        before, after = history[index - 1], history[index]
        calls += before.calls
        chars += before.chars
        is_done = is_done or before.ends_subtask
        if before.group == after.group:
            continue
        is_natural = (after.is_user and not before.is_user) or is_done
        if (is_natural and chars >= least_chars) or calls >= most_calls or chars >= most_chars:
            yield index
            calls = chars = 0
        is_done = False
