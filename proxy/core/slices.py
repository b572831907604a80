"""Cuts a piece out of a long text, by lines or round a literal query, and says what was left out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring lines, numbered from 1, line ends taken off."""

    first: int
    lines: tuple[str, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


@dataclass(frozen=True, slots=True)
class Slice:
    """Spans in order, never touching. `matches` counts lines that hold the query, None without one."""

    spans: tuple[Span, ...]
    total: int
    matches: int | None = None

    @property
    def left_out(self) -> str:
        """What is missing, in words; empty when nothing is."""
        shown = sum(len(span.lines) for span in self.spans)
        if shown == self.total:
            return ""
        if not shown:
            return f"none of {count_lines(self.total)} shown"
        ranges = ", ".join(f"{span.first}-{span.last}" for span in self.spans)
        return f"lines {ranges} of {self.total} shown, {count_lines(self.total - shown)} left out"


def slice_lines(text: str, first: int, last: int) -> Slice:
    """Lines `first` to `last`, both included, counted from 1. What lies outside the text is left away."""
    lines = split_lines(text)
    first = max(1, first)
    last = min(last, len(lines))
    spans = (Span(first, tuple(lines[first - 1 : last])),) if first <= last else ()
    return Slice(spans, len(lines))


def slice_query(text: str, query: str, context: int = 2) -> Slice:
    """Every line that holds `query`, literally and in any case, with `context` lines on both sides."""
    lines = split_lines(text)
    needle = query.casefold()
    hits = [index for index, line in enumerate(lines) if needle in line.casefold()] if needle else []
    spans = tuple(
        Span(start + 1, tuple(lines[start:stop])) for start, stop in _merge(hits, max(0, context), len(lines))
    )
    return Slice(spans, len(lines), matches=len(hits))


def split_lines(text: str) -> list[str]:
    """Lines as people and tools count them: by LF, with CR taken off; a last line end opens no new line."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def count_lines(number: int) -> str:
    """`number` with its noun."""
    return f"{number} line" if number == 1 else f"{number} lines"


def _merge(hits: Sequence[int], context: int, total: int) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for hit in hits:
        start, stop = max(0, hit - context), min(total, hit + context + 1)
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged
