"""Lossless shorter texts of tool results: lines that stand in earlier items become references to them. Pure.

An item's delta depends on the items before it alone. It may stand only while what it refers to stands in full.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from proxy.core.offers import Listed, Note, Offer
from proxy.core.overlap import MIN_LINES, LineIndex, Lines, Run, read_lines
from proxy.core.texts import clip, is_encoded, size_words

MIN_SHARE = 0.2
"""Less of a text in runs is not worth reading across two places."""
MIN_CHARS = 400
REFERENCE_CHARS = 40
"""What a reference takes at least; a run must be longer than two of them."""
LABEL_CHARS = 40
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Delta:
    """A text without the lines that stand elsewhere. `own` are the line ranges that it keeps."""

    text: str
    bases: tuple[str, ...]
    own: tuple[range, ...]


def delta(
    lines: Lines, runs: Sequence[Run], *, id: str, labels: Mapping[str, str] = MappingProxyType({})
) -> Delta | None:
    """The delta of a text with those `runs` elsewhere; None where it would not be worth it.

    `labels` say how the model knows an item: by the call that it answers.
    """
    size = sum(map(len, lines.raw)) + len(lines.raw) - 1
    worth = [run for run in (_even(lines, run) for run in runs) if _chars(lines, run) > 2 * REFERENCE_CHARS]
    if sum(_chars(lines, run) for run in worth) < MIN_SHARE * size:
        return None
    bases = tuple(dict.fromkeys(run.item for run in worth))
    body: list[str] = []
    own: list[range] = []
    following = 0
    for run in worth:
        body += lines.raw[following : run.start]
        own.append(range(following, run.start))
        body.append(_reference(lines, run, is_only=len(bases) == 1))
        following = run.stop
    body += lines.raw[following:]
    own.append(range(following, len(lines.raw)))
    text = "\n".join([_head(size, id, bases, labels), *body])
    return Delta(text, bases, tuple(part for part in own if part)) if len(text) < size else None


def _head(size: int, id: str, bases: Sequence[str], labels: Mapping[str, str]) -> str:
    """The call is in the window, just before; so only the id, and where to look for what is left out."""
    named = "; ".join(f"#{base} ({label})" if (label := labels.get(base)) else f"#{base}" for base in bases)
    return f"[#{id}, {size_words(size)} · lines left out stand above in {named}]"


def _reference(lines: Lines, run: Run, *, is_only: bool) -> str:
    first = lines.numbers[run.start]
    count = run.stop - run.start
    which = f"{count:,} lines" if first < 0 else f"lines {first}-{first + count - 1}"
    where = "" if is_only else f" in #{run.item}"
    return f'[… {which}{where} from "{clip(lines.raw[run.start], REFERENCE_CHARS)}"]'


def _even(lines: Lines, run: Run) -> Run:
    """The run as far as the numbers before its lines count up, so that the first one tells them all."""
    first = lines.numbers[run.start]
    for offset in range(1, run.stop - run.start):
        if lines.numbers[run.start + offset] != (first + offset if first >= 0 else -1):
            return Run(run.start, run.start + offset, run.item, run.at)
    return run


def _chars(lines: Lines, run: Run) -> int:
    return sum(len(line) + 1 for line in lines.raw[run.start : run.stop])


class DeltaMaker:
    """Reads one list and offers deltas of its tool results."""

    def __init__(self) -> None:
        self._index = LineIndex()
        self._labels: dict[str, str] = {}

    def read(self, item: Listed) -> Note | None:
        element = item.element
        if element.kind != "tool_result":
            if element.role == "assistant" and (text := written_text(element.text)).count("\n") >= MIN_LINES:
                self._labels[item.id] = "your own message"
                self._index.add(item.id, read_lines(text))
            return None
        self._labels[item.id] = clip(item.argument or (item.call.name if item.call else ""), LABEL_CHARS)
        texts: list[str | None] = []
        bases: dict[str, None] = {}
        for text in element.texts[:1]:
            found = self._delta(item, text)
            texts.append(found.text if found is not None else None)
            bases.update(dict.fromkeys(found.bases if found is not None else ()))
        if not bases:
            return None
        return Note(Offer("delta", (*texts, *(None,) * (len(element.texts) - 1)), tuple(bases)))

    def _delta(self, item: Listed, text: str) -> Delta | None:
        if is_encoded(text):
            return None
        lines = read_lines(text)
        made = None
        if len(text) >= MIN_CHARS:
            made = delta(
                lines,
                self._index.runs(lines),
                id=item.id,
                labels=self._labels,
            )
        self._index.add(item.id, lines, made.own if made is not None else None)
        return made


def written_text(arguments: str) -> str:
    """The text inside a call's arguments, with the escapes of its JSON undone: what the model wrote."""
    if "\\n" not in arguments:
        return arguments
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), arguments)
