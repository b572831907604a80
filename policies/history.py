"""What a scorer remembers of a run, item by item: who used which word, line and object, and when. Pure, prefix-only.

It only ever grows: adding an item costs what that item is long, whatever came before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from policies.kinds import TextKind
from policies.model import Candidate
from policies.reading import Reading, Readings

RARE = 6
"""A word that so few items hold tells one thing."""


@dataclass(slots=True)
class Exchange:
    """One assistant turn with its results: the items, and what its calls were about."""

    items: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    objects: frozenset[str] = frozenset()
    kind: TextKind = "think"


@dataclass(slots=True)
class History:
    """State over the items added so far; the lists are parallel to them."""

    readings: list[Reading] = field(default_factory=list)
    ids: list[tuple[str, int]] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # tokens up to and with each item
    exchanges: dict[int, Exchange] = field(default_factory=dict)
    held_by: dict[str, int] = field(default_factory=dict)  # how many items hold a word
    holders: dict[str, list[int]] = field(default_factory=dict)  # the first items that hold it, while it is rare
    first: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    last_said: dict[str, int] = field(default_factory=dict)  # newest assistant item that uses a word
    last_line: dict[str, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)  # how many exchanges named an object
    edited: dict[str, int] = field(default_factory=dict)  # newest exchange that edited an object
    standing: dict[int, list[float]] = field(default_factory=dict)
    """What a scorer worked out for an item and may use again: taken out when a new item touches what it rests on."""

    def __len__(self) -> int:
        return len(self.readings)

    @property
    def tokens(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def newest(self) -> int:
        """The newest exchange."""
        return self.calls[-1] if self.calls else 0

    def add(self, candidate: Candidate, reading: Reading) -> None:
        index = len(self.readings)
        self.readings.append(reading)
        self.ids.append((candidate.id, hash(candidate.text)))
        self.calls.append(candidate.call)
        self.ends.append(self.tokens + reading.tokens)
        is_said = candidate.kind == "assistant"
        self._take_words(index, reading, is_said)
        if is_said:
            self.last_said.update(dict.fromkeys(reading.words, index))
        for line in reading.lines:
            if line.mark:
                self.standing.pop(self.last_line.get(line.mark, -1), None)
                self.last_line[line.mark] = index
        exchange = self.exchanges.setdefault(candidate.call, Exchange())
        exchange.items.append(index)
        if candidate.kind == "tool_result":
            exchange.results.append(index)
            exchange.kind = reading.kind
        new = reading.objects - exchange.objects
        if new:
            exchange.objects |= new
            for name in new:
                self.named[name] = self.named.get(name, 0) + 1
                if reading.kind == "edit":
                    self.edited[name] = candidate.call

    def _take_words(self, index: int, reading: Reading, is_said: bool) -> None:
        held_by, first, holders, standing = self.held_by, self.first, self.holders, self.standing
        for word in reading.words:
            count = held_by.get(word, 0) + 1
            held_by[word] = count
            if count <= RARE + 1:
                known = holders.setdefault(word, [])
                for holder in known:
                    standing.pop(holder, None)
                known.append(index)
            if count == 1:
                first[word] = index
            elif is_said:
                standing.pop(first[word], None)
        self.last.update(dict.fromkeys(reading.words, index))

    def grown(self, candidates: Sequence[Candidate], readings: Readings) -> bool:
        """Add what is new of `candidates`; False, and nothing done, when they do not continue this history."""
        known = len(self.ids)
        if known > len(candidates):
            return False
        for (item, text_hash), candidate in zip(self.ids, candidates, strict=False):
            if item != candidate.id or text_hash != hash(candidate.text):
                return False
        for candidate in candidates[known:]:
            self.add(candidate, readings.of(candidate))
        return True


class Histories:
    """The histories of the branches seen last, each extended where a list continues it."""

    def __init__(self, limit: int = 8) -> None:
        self._limit = limit
        self._held: list[History] = []
        self.readings = Readings()

    def of(self, candidates: Sequence[Candidate]) -> History:
        """The history of exactly these items. What was kept from before makes it cheaper, never different."""
        for number, history in enumerate(self._held):
            if len(history) and history.grown(candidates, self.readings):
                self._held.insert(0, self._held.pop(number))
                return history
        history = History()
        history.grown(candidates, self.readings)
        self._held.insert(0, history)
        del self._held[self._limit :]
        return history
