"""The shorter forms of an item's text: stub, excerpt (lines, shape or outline), kept segments. Pure and deterministic.

Each says what is missing and names the original by its id. Encoded data stands whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from policies.model import ExcerptKind
from policies.segments import excerpt_body, split
from proxy.core.loglines import choose_lines, closing_lines, error_lines, with_gaps
from proxy.core.outline import code_outline, diff_outline, is_diff, outline_text
from proxy.core.shape import matches, shape
from proxy.core.texts import INTRODUCED_WORDS, clip, is_encoded, is_json_like, size_words, without_encoded

ARGUMENT_CHARS = 70
EXCERPT_SHARE = 0.25
MIN_EXCERPT_LINES = 12

Parse = Callable[[str], object]
"""Reads a text as JSON: the value, or None where it is none."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A shorter text and what kind of excerpt it is."""

    kind: ExcerptKind
    text: str


def stub(text: str, *, id: str, tool: str, failed: bool, argument: str = "", words: Sequence[str] = ()) -> str:
    """One line that stands for an omitted output, with its error lines below; a failed one keeps its closing lines.

    `argument` tells which call it was, `words` are a few that only this text introduced (see
    `texts.introduced_words`).
    """
    parts = [f"output omitted from history: {size_words(len(text))} from {tool or 'a tool'}", f"id {id}"]
    parts += _marks(failed=failed, argument=argument)
    if words:
        parts.append(f"mentions: {', '.join(words[:INTRODUCED_WORDS])}")
    closing = closing_lines(text) if failed else ""
    errors = [error for error in error_lines(text) if error not in closing]
    return "\n".join([f"[{' · '.join(parts)}]", *errors, *([closing] if closing else [])])


def excerpt(
    text: str,
    *,
    id: str,
    tool: str,
    failed: bool,
    argument: str = "",
    terms: Container[str] = frozenset(),
    parse: Parse | None = None,
    share: float = EXCERPT_SHARE,
) -> Excerpt | None:
    """A shorter text that keeps what is likely needed, with what is missing said; None when none is right.

    JSON becomes its shape with the rows that `terms` match, a diff its files and hunks, code its
    definitions; other text keeps error lines, both ends, lines with one of `terms` and their
    neighbours, and an even sample, up to `share` of its characters. Text that is mainly encoded
    data, JSON that does not parse, and what is too short have no excerpt.
    """
    made = _body(text, terms, parse, int(len(text) * share))
    if made is None:
        return None
    kind, kept, body = made
    parts = [f"excerpt of {size_words(len(text))} from {tool or 'a tool'}", f"id {id}", f"kept {kept}"]
    parts += _marks(failed=failed, argument=argument)
    whole = f"[{' · '.join(parts)}]\n{body}"
    return Excerpt(kind, whole) if len(whole) < len(text) else None


def kept_segments(text: str, keep: Sequence[int], *, id: str, tool: str, failed: bool, argument: str) -> str:
    """A header line with the id, then the segments `keep` of the text word for word, with a mark at each gap.

    The numbers are those of `policies.segments.split(text)`; one that the text does not have is left out.
    """
    segments = split(text)
    there = tuple(index for index in keep if 0 <= index < len(segments))
    parts = [
        f"#{id} {tool or 'a tool'} {len(there):,}/{len(segments):,} lines",
        *_marks(failed=failed, argument=argument),
    ]
    body = excerpt_body(text, segments, there) if there else ""
    return f"[{' · '.join(parts)}]\n{body}" if body else f"[{' · '.join(parts)}]"


@dataclass(frozen=True, slots=True)
class Kept:
    """One item of an excerpt region: what it is, and which of its segments stay."""

    id: str
    tool: str  # the tool's name, or the role of who wrote it
    text: str
    keep: tuple[int, ...]
    argument: str = ""
    is_failed: bool = False


def region(items: Sequence[Kept]) -> str:
    """An excerpt region: every item with its header and its kept segments, in the order given."""
    return "\n".join(
        kept_segments(item.text, item.keep, id=item.id, tool=item.tool, failed=item.is_failed, argument=item.argument)
        for item in items
    )


def _marks(*, failed: bool, argument: str) -> list[str]:
    return [*(["failed"] if failed else []), *([f"call: {clip(argument, ARGUMENT_CHARS)}"] if argument else [])]


def _body(text: str, terms: Container[str], parse: Parse | None, room: int) -> tuple[ExcerptKind, str, str] | None:
    """Kind, what was kept in words, and the text itself."""
    if is_encoded(text):
        return None
    if is_json_like(text):
        value = parse(text) if parse is not None else None
        return _shape_body(value, terms) if isinstance(value, Mapping | list) else None
    text = without_encoded(text)
    lines = text.splitlines()
    if len(lines) < MIN_EXCERPT_LINES:
        return None
    if is_diff(text):
        body = diff_outline(text, terms, room)
        return ("outline", "its outline", body) if body else None
    chosen = code_outline(lines, terms, room)
    if chosen:
        return "outline", f"{len(chosen):,} of {len(lines):,} lines, its outline", outline_text(lines, chosen)
    chosen = choose_lines(lines, terms, room)
    if not chosen or len(chosen) == len(lines):
        return None
    return "lines", f"{len(chosen):,} of {len(lines):,} lines", with_gaps(lines, chosen)


def _shape_body(value: object, terms: Container[str]) -> tuple[ExcerptKind, str, str]:
    rows, count = matches(value, terms)
    kept = "its shape" if not count else f"its shape and {len(rows):,} of {count:,} matching rows"
    return "shape", kept, "\n".join([shape(value), *rows])
