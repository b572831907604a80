"""Reads one item once: its segments with their words, what it is about, and of what kind it is. Pure; cached."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import KeysView, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policies.estimate import estimate
from policies.kinds import TextKind, kind_of_call
from policies.model import Candidate
from policies.segments import Segment, split

MIN_LINE = 12
"""Shorter lines (`}`, `else:`) recur everywhere and say nothing by it."""
MAX_OBJECTS = 24

_WORD = re.compile(r"[A-Za-z_]\w{3,}|\d{4,}")
_DEFINES = re.compile(
    r"\s*(?:export\s+|public\s+|private\s+|static\s+|async\s+|default\s+|pub\s+)*(?:def|class|function|func|fn|interface)\b"
)
_FILE = re.compile(
    r"[\w.-]+\.(?:py|pyi|md|rst|txt|js|jsx|ts|tsx|mjs|json|toml|ya?ml|cfg|ini|html?|css|scss|go|rs|rb|java|kt|c|h|cc|cpp|hpp"
    r"|cs|php|sh|sql|xml|csv|lock|vue|svelte|swift|pony|pl|lua|ex|exs|ipynb|tf|proto|graphql|log|env|conf)\b"
)
_ID = re.compile(r"#?(?=\w*\d{4})[\w-]{6,}|\b[A-Z0-9]{6,}\b")
_CALLED = re.compile(r"\s*[A-Za-z_][\w.:-]*\(")


@dataclass(frozen=True, slots=True)
class Line:
    """What one segment says: `mark` is the trimmed text of a line that can be recognised elsewhere, else ""."""

    tokens: int
    log_tokens: float
    mark: str
    kind: TextKind
    is_def: bool
    is_blank: bool  # no word in it
    is_punct: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """An item as the scorer sees it. `objects` are what its calls name: files by their last part, ids."""

    segments: tuple[Segment, ...]
    lines: tuple[Line, ...]
    places: Mapping[str, Sequence[int]]  # each word, and the segments that hold it
    objects: frozenset[str]
    kind: TextKind  # of the first call for an assistant turn that calls, else of the text
    tokens: int
    sizes: tuple[int, ...] = ()  # tokens of each segment
    kinds: tuple[TextKind, ...] = ()  # those that its segments have

    @property
    def words(self) -> KeysView[str]:
        return self.places.keys()


class Readings:
    """Readings by item and text, so that a call reads only what is new."""

    def __init__(self, limit: int = 20_000) -> None:
        self._known: Final[OrderedDict[tuple[str, int, int], Reading]] = OrderedDict()
        self._limit = limit
        self.made = 0  # how many items were read, for tests of what a call costs

    def of(self, candidate: Candidate) -> Reading:
        key = (candidate.id, hash(candidate.text), candidate.tokens)
        found = self._known.get(key)
        if found is None:
            found = read(candidate)
            self.made += 1
            self._known[key] = found
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
        return found


def read(candidate: Candidate) -> Reading:
    """The reading of one item, from its own text alone."""
    segments = split(candidate.text)
    kinds, kind, objects = _kinds(candidate, segments)
    guesses = [estimate(segment.text) for segment in segments]
    total = sum(guesses)
    # A piece has its share of the item's exact count: the estimate only says how it is spread.
    scale = min(1.6, max(0.5, candidate.tokens / total)) if total else 1.0
    lines: list[Line] = []
    places: dict[str, list[int]] = {}
    for number, (segment, guess, of_kind) in enumerate(zip(segments, guesses, kinds, strict=True)):
        trimmed = segment.text.strip()
        words = dict.fromkeys(_WORD.findall(segment.text))  # in order, so that sums over them are
        for word in words:
            places.setdefault(word, []).append(number)
        tokens = max(1, int(guess * scale + 0.5))
        lines.append(
            Line(
                tokens=tokens,
                log_tokens=math.log(tokens),
                mark=trimmed if len(trimmed) >= MIN_LINE else "",
                kind=of_kind,
                is_def=_DEFINES.match(segment.text) is not None,
                is_blank=not words,
                is_punct=len(trimmed) < 4,
            )
        )
    sizes = tuple([line.tokens for line in lines])
    return Reading(segments, tuple(lines), places, objects, kind, candidate.tokens, sizes, tuple(dict.fromkeys(kinds)))


def _kinds(candidate: Candidate, segments: tuple[Segment, ...]) -> tuple[list[TextKind], TextKind, frozenset[str]]:
    if candidate.kind == "tool_result":
        kind = kind_of_call(candidate.tool, candidate.source)
        return [kind] * len(segments), kind, frozenset()
    if candidate.kind not in ("assistant", "reasoning"):
        return ["user"] * len(segments), "user", frozenset()
    kinds: list[TextKind] = []
    called: TextKind = "think"
    objects: dict[str, None] = {}
    calls = call_texts(segments)
    of_call = [kind_of_call(tool, text) for tool, text, _ in calls]
    numbers = [number for number, (_, _, count) in enumerate(calls) for _ in range(count)]
    for _, text, _ in calls:
        objects.update(dict.fromkeys(objects_of(text)))
    position = 0
    for segment in segments:
        if segment.kind != "call":
            kinds.append("think")
            continue
        kinds.append("eargs" if of_call[numbers[position]] == "edit" else "args")
        position += 1
    if of_call:
        called = of_call[0]
    return kinds, called, frozenset(list(objects)[:MAX_OBJECTS])


def call_texts(segments: tuple[Segment, ...]) -> list[tuple[str, str, int]]:
    """Each call's tool, its values as text, and how many segments it has."""
    calls: list[tuple[str, list[str]]] = []
    previous: Segment | None = None
    for segment in segments:
        if segment.kind == "call":
            is_new = previous is None or previous.tool != segment.tool or segment.start > previous.end + 3
            if is_new or _CALLED.match(segment.text):
                calls.append((segment.tool, []))
            calls[-1][1].append(segment.text)
        previous = segment if segment.kind == "call" else None
    return [(tool, _values("\n".join(parts), tool), len(parts)) for tool, parts in calls]


def _values(text: str, tool: str) -> str:
    """The argument values of a call that stands on one line, without its name and its first key."""
    lead = f"{tool}("
    if text.startswith(lead):
        text = re.sub(r'^\{\s*"[^"]*"\s*:\s*"?', "", text[len(lead) :])
    return text


def objects_of(text: str) -> list[str]:
    """What a call is about: file names without their folders, and ids."""
    found = dict.fromkeys(_FILE.findall(text))
    found.update(dict.fromkeys(word.strip("-#") for word in _ID.findall(text)))
    return [word for word in found if word]
