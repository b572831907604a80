"""What an expand call asks for and gets: a piece of an original, bounded, with what was left out named. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from proxy.core.slices import Slice, Span, count_lines, slice_lines, slice_query, split_lines

CONTEXT_LINES = 2
_LINES = re.compile(r"^\s*(?:lines?\s*)?(\d+)?\s*(?:(-|\u2013|:|\.\.)\s*(\d+)?)?\s*$", re.IGNORECASE)
_ID = re.compile(r"[a-z2-7]{12}")
_HEADER = re.compile(r"\[id ([a-z2-7]{12}) · (.+) · [\d,]+ lines?\b[^\n]*\]\n")
_ROUGH_CHARS = 4  # characters a token has in most texts

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a call asks for. `lines` are first and last, counted from 1; `fault` says why it cannot be served."""

    id: str = ""
    lines: tuple[int, int] | None = None
    query: str = ""
    max_tokens: int | None = None
    fault: str = ""

    @property
    def key(self) -> tuple[str, tuple[int, int] | None, str]:
        """Equal for two asks that get the same text."""
        return self.id, self.lines, self.query


def clean_id(text: str) -> str:
    """The id in what a model writes: `id abc...`, `#abc...`, with quotes or brackets round it."""
    found = _ID.search(text)
    return found.group() if found else text.strip()


def parse_lines(text: str) -> tuple[int, int] | None:
    """`10-40`, `10`, `10-`, `-40`; None for anything else."""
    match = _LINES.match(text)
    if match is None or (match[1] is None and match[3] is None):
        return None
    first = int(match[1]) if match[1] else 1
    open_end = 10**9 if match[2] else first
    last = int(match[3]) if match[3] else open_end
    return (first, last) if first <= last else (last, first)


def piece(ask: Ask, text: str, title: str, limit: int, count: Count) -> str:
    """The text that answers `ask`: a header line, then what was asked for, of at most `limit` tokens."""
    if ask.max_tokens is not None:
        limit = max(1, min(limit, ask.max_tokens))
    if ask.query:
        found = slice_query(text, ask.query, CONTEXT_LINES)
        if ask.lines is not None:
            found = _within(found, *ask.lines)
        if not found.spans:
            return f"[id {ask.id} · {title} · {count_lines(found.total)} · no line holds {ask.query!r}]"
    elif ask.lines is not None:
        found = slice_lines(text, *ask.lines)
        if not found.spans:
            return f"[id {ask.id} · {title} · it has {count_lines(found.total)} only]"
    else:
        lines = tuple(split_lines(text))
        found = Slice((Span(1, lines),), len(lines))
    kept, is_cut = _fit(found, limit, count)
    notes = [note for note in (kept.left_out, "the last line is cut" if is_cut else "") if note]
    if ask.query:
        notes.insert(0, f"{found.matches} matching")
    if notes and kept.spans:
        notes.append(f"ask for more with lines={kept.spans[-1].last + (not is_cut)}-{kept.total}")
    header = " · ".join([f"id {ask.id}", title, count_lines(kept.total), *notes])
    return f"[{header}]\n" + "\n…\n".join("\n".join(span.lines) for span in kept.spans)


def source_of(answer: str) -> tuple[str, str] | None:
    """Id and title of the original that an answer gives a piece of; None for any other answer."""
    match = _HEADER.match(answer)
    return (match[1], match[2]) if match else None


def _within(found: Slice, first: int, last: int) -> Slice:
    spans = []
    for span in found.spans:
        start, stop = max(span.first, first), min(span.last, last)
        if start <= stop:
            spans.append(Span(start, span.lines[start - span.first : stop - span.first + 1]))
    return Slice(tuple(spans), found.total, found.matches)


def _fit(found: Slice, limit: int, count: Count) -> tuple[Slice, bool]:
    """As many leading lines as fit; of a first line that is too long, its beginning."""
    lines = [line for span in found.spans for line in span.lines]
    if len("\n".join(lines)) <= limit or count("\n".join(lines)) <= limit:
        return found, False
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        text = "\n".join(lines[:middle])
        fits = len(text) <= limit or (len(text) <= 64 * limit and count(text) <= limit)
        low, high = (middle, high) if fits else (low, middle - 1)
    if low:
        return _first(found, low), False
    line = lines[0][: _ROUGH_CHARS * limit]
    while len(line) > limit and count(line) > limit:
        line = line[: len(line) * 3 // 4]
    return Slice((Span(found.spans[0].first, (line,)),), found.total, found.matches), True


def _first(found: Slice, number: int) -> Slice:
    spans: list[Span] = []
    for span in found.spans:
        taken = span.lines[:number]
        if taken:
            spans.append(Span(span.first, taken))
        number -= len(taken)
    return Slice(tuple(spans), found.total, found.matches)


def listing(id: str, entries: Sequence[str], limit: int, count: Count) -> str:
    """What a summary stands for: one line an original, as many as fit."""
    head = f"[id {id} · stands for {len(entries)} originals; each can be had by its own id]"
    kept = list(entries)
    while kept and count("\n".join([head, *kept])) > limit:
        kept = kept[: len(kept) * 3 // 4]
    rest = len(entries) - len(kept)
    return "\n".join([head, *kept, *([f"… {rest} more"] if rest else [])])
