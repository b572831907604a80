"""Windows of a policy over a recorded run, as they would be served: what stands where, in counted tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from policies.contract import Policy, check
from policies.draft import group_ranges
from policies.model import Budget, Candidate, Form, Pressure, Selection, Situation
from policies.reading import Readings
from policies.segments import Segment, excerpt_body, split
from proxy.evaluation.recorded.runs import Run

Count = Callable[[str], int]
DIGEST_OVERHEAD = 4
ARGUMENT_CHARS = 70
INTRODUCED = 4


@dataclass(slots=True)
class Window:
    """One served window. `notes` are the excerpt blocks by item, `stubs` the index lines by item."""

    step: int
    full: frozenset[int]
    notes: Mapping[int, str] = field(default_factory=dict)
    whole_notes: frozenset[int] = frozenset()
    stubs: Mapping[int, str] = field(default_factory=dict)
    tokens: int = 0
    blocks: tuple[tuple[str, int], ...] = ()
    is_valid: bool = True
    cpu_s: float = 0.0
    is_new: bool = False


class Server:
    """Serves windows from a policy's selections, and keeps what a proxy keeps between them."""

    def __init__(self, run: Run, policy: Policy, count: Count, *, index: float) -> None:
        self.run = run
        self.policy = policy
        self._count = count
        self._index = index
        self._held: dict[str, Form] = {}
        self._memory: Mapping[str, float] = {}
        self._notes: dict[int, tuple[str, int]] = {}
        self._stubs: dict[int, tuple[str, int]] = {}
        self._whole: frozenset[int] = frozenset()
        self._key: object = None
        self._first = first_words(run)
        self._known: dict[tuple[int, tuple[int, ...]], tuple[str, int]] = {}
        self._split: dict[int, tuple[Segment, ...]] = {}

    def windows(self, budget: int) -> Iterator[Window]:
        for step in self.run.calls():
            yield self._window(step, self.run.prefix(step), budget)

    def _window(self, step: int, items: tuple[Candidate, ...], budget: int) -> Window:
        target = budget
        spent = 0.0
        for attempt in range(5):
            situation = Situation(
                items, Budget(target), held=self._held, digest_tokens=self._digest_tokens(),
                pressure=Pressure("budget", target), memory=self._memory,
            )  # fmt: skip
            start = time.process_time()
            selection = self.policy.select(situation)
            spent += time.process_time() - start
            check(situation, selection)
            window = self._serve(step, items, selection, budget)
            if window.tokens <= budget or attempt == 4:
                break
            # As the proxy does: what was estimated too low is measured, and asked for again with so much less room.
            target -= window.tokens - budget + 8
        self._held = {c.id: c.form for c in selection.choices if c.form is not Form.FULL}
        self._memory = selection.memory
        window.cpu_s = spent
        return window

    def _digest_tokens(self) -> int:
        return sum(t for _, t in self._notes.values()) + sum(t for _, t in self._stubs.values()) + DIGEST_OVERHEAD

    def _serve(self, step: int, items: tuple[Candidate, ...], selection: Selection, budget: int) -> Window:
        folded = [c for c, choice in zip(items, selection.choices, strict=True) if choice.form is Form.FOLDED]
        keeps = tuple((c.index, choice.keep) for c, choice in zip(items, selection.choices, strict=True) if choice.keep)
        full = [c for c, choice in zip(items, selection.choices, strict=True) if choice.form is Form.FULL]
        is_new = False
        standing = tuple(c.id for c in folded)
        if keeps or (folded and self._key is None) or not folded or standing != self._key:
            is_new = bool(folded)
            self._render(items, folded, keeps, selection, budget)
        self._key = standing if folded else None
        blocks = [(f"{c.id}", c.tokens) for c in full]
        if folded:
            at = next((n for n, c in enumerate(full) if c.index > folded[0].index), len(full))
            notes = [(text, tokens) for text, tokens in [*self._notes.values(), *self._stubs.values()]]
            blocks[at:at] = notes
        return Window(
            step, frozenset(c.index for c in full),
            {i: text for i, (text, _) in self._notes.items()} if folded else {}, self._whole if folded else frozenset(),
            {i: text for i, (text, _) in self._stubs.items()} if folded else {},
            sum(tokens for _, tokens in blocks) + (DIGEST_OVERHEAD if folded and self._notes else 0),
            tuple(blocks), _is_valid(items, selection), is_new=is_new,
        )  # fmt: skip

    def _render(
        self, items: tuple[Candidate, ...], folded: list[Candidate], keeps: tuple[tuple[int, tuple[int, ...]], ...],
        selection: Selection, budget: int,
    ) -> None:  # fmt: skip
        self._notes = {index: self._note(items[index], keep) for index, keep in keeps}
        self._whole = frozenset(index for index, keep in keeps if len(keep) == len(self._segments(items[index])))
        self._stubs = {}
        room = int(self._index * budget)
        kept = dict(keeps)
        left = [c for c in folded if c.kind == "tool_result" and c.index not in kept]
        for candidate in sorted(left, key=lambda c: (-selection.choices[c.index].score, -c.index)):
            text, tokens = self._stub(candidate)
            if tokens <= room:
                room -= tokens
                self._stubs[candidate.index] = (text, tokens)

    def _note(self, candidate: Candidate, keep: tuple[int, ...]) -> tuple[str, int]:
        key = (candidate.index, keep)
        if key not in self._known:
            segments = self._segments(candidate)
            text = f"{header(candidate, len(keep), len(segments))}\n{excerpt_body(candidate.text, segments, keep)}"
            self._known[key] = (text, self._count(text + "\n"))
        return self._known[key]

    def _segments(self, candidate: Candidate) -> tuple[Segment, ...]:
        if candidate.index not in self._split:
            self._split[candidate.index] = split(candidate.text)
        return self._split[candidate.index]

    def _stub(self, candidate: Candidate) -> tuple[str, int]:
        key = (candidate.index, ())
        if key not in self._known:
            words = [word for word, first in self._first.items() if first == candidate.index][:INTRODUCED]
            call = " ".join(candidate.source.split())[:ARGUMENT_CHARS]
            text = f"- {candidate.id} {candidate.tool} {call} · {candidate.size_chars:,} chars · {', '.join(words)}"
            self._known[key] = (text, self._count(text + "\n"))
        return self._known[key]


def header(candidate: Candidate, kept: int, total: int) -> str:
    """The line over an item's kept segments, as the product writes it."""
    name = candidate.tool or candidate.kind
    call = " ".join(candidate.source.split())[:ARGUMENT_CHARS]
    told = f" · call: {call}" if call and candidate.kind == "tool_result" else ""
    return f"[#{candidate.id} {name} {kept}/{total} lines{told}]"


def first_words(run: Run) -> dict[str, int]:
    """Every word with the item that introduced it."""
    readings = Readings(100_000)
    first: dict[str, int] = {}
    for candidate in run.items:
        for word in sorted(readings.of(candidate).words):
            first.setdefault(word, candidate.index)
    return first


def _is_valid(items: tuple[Candidate, ...], selection: Selection) -> bool:
    """Whole groups only, and every pin and the last exchange in full."""
    forms = [choice.form for choice in selection.choices]
    for group in group_ranges(items):
        if len({forms[index] is Form.FULL for index in group}) > 1:
            return False
    newest = items[-1].call
    return all(forms[c.index] is Form.FULL for c in items if c.is_pinned or (c.call == newest and newest))
