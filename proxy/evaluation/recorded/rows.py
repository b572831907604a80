"""The policies that a replay compares: baselines, a cheat that must not win, an oracle, the selector's settings."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policies.contract import Policy
from policies.draft import Draft, group_ranges, last_exchange
from policies.filling import Filler, Scores
from policies.history import History
from policies.last_n import LastN
from policies.model import Candidate, Choice, Form, Selection, Situation
from policies.scoring import Focus
from policies.selector import Greedy, Selector, SelectorOptions
from proxy.evaluation.recorded.runs import Run, Step


class RandomDrop:
    """Drops whole groups at random until the rest fits; the last three exchanges stay. No good policy is worse."""

    name = "random"

    def select(self, situation: Situation) -> Selection:
        candidates = situation.candidates
        edge = last_exchange(candidates)
        newest = candidates[-1].call if candidates else 0
        groups = [
            group
            for group in group_ranges(candidates)
            if group.stop <= edge
            and all(
                candidates[i].is_seen and not candidates[i].is_pinned and candidates[i].call < newest - 2 for i in group
            )
        ]
        random.Random(len(candidates)).shuffle(groups)
        return _without(situation, groups)


class StickyLastN:
    """The newest groups; when full it is cut to a share of the room, then appended to."""

    name = "last_n_sticky"

    def __init__(self, low: float) -> None:
        self.low = low

    def select(self, situation: Situation) -> Selection:
        draft = Draft(situation)
        if draft.tokens <= situation.budget.room:
            return Selection(tuple(draft.finish("").choices))
        pins = sum(c.tokens for c in situation.candidates if c.is_pinned)
        low = pins + int(self.low * (situation.budget.room - pins))
        edge = last_exchange(situation.candidates)
        groups = [
            group
            for group in group_ranges(situation.candidates)
            if group.stop <= edge and all(not situation.candidates[i].is_pinned for i in group)
        ]
        return _without(situation, groups, low)


def _without(situation: Situation, groups: Sequence[range], room: int | None = None) -> Selection:
    left = sum(c.tokens for c in situation.candidates) - (situation.budget.room if room is None else room)
    gone: set[int] = set()
    for group in groups:
        if left <= 0:
            break
        gone.update(group)
        left -= sum(situation.candidates[i].tokens for i in group)
    return Selection(
        tuple(Choice(c.id, Form.ABSENT if c.index in gone else Form.FULL, "") for c in situation.candidates)
    )


class Oracle:
    """Knows what the next action will use, and holds exactly that: what is feasible at all."""

    name = "oracle"

    def __init__(self, run: Run, steps: Sequence[Step]) -> None:
        self._run = run
        self._facts = {step.index: step.facts for step in steps}

    def select(self, situation: Situation) -> Selection:
        candidates = situation.candidates
        edge = last_exchange(candidates)
        wanted: set[int] = set()
        for fact in self._facts.get(len(candidates), ()):
            if wanted.isdisjoint(fact.sources):
                wanted.add(min(fact.sources, key=lambda source: (candidates[source].tokens, source)))
        kept = {
            index
            for group in group_ranges(candidates)
            for index in group
            if group.stop > edge or not wanted.isdisjoint(group) or any(candidates[i].is_pinned for i in group)
        }
        return Selection(tuple(Choice(c.id, Form.FULL if c.index in kept else Form.ABSENT, "") for c in candidates))


_TELLING = re.compile(r"\d{4,}|[\w.-]*/[\w./-]+|\w+\.\w+|\w+_\w+|[a-z]+[A-Z]\w+|\"[^\"\n]{6,80}\"|\b[A-Z0-9]{6,}\b")


class CheatFiller(Filler):
    """Keeps the lines with most ids, paths and identifiers a token: it plays to the labels and knows nothing else."""

    def scores(self, history: History, indices: Sequence[int], now: Focus, candidates: Sequence[Candidate]) -> Scores:
        return {
            index: [len(_TELLING.findall(segment.text)) / 100 for segment in history.readings[index].segments]
            for index in indices
        }


def rare_words() -> Policy:
    """The cheat as a policy."""
    return Greedy(SelectorOptions(tail=0.3, index=0.0), CheatFiller({}))


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    make: Callable[[], Policy]
    index: float = 0.0


def _greedy(index: float = 0.0, weights: str = "A", tail: float = 0.3) -> Callable[[], Policy]:
    return lambda: Greedy(SelectorOptions(weights=weights, tail=tail, index=index))


def _sticky(low: float, index: float, weights: str = "A") -> Callable[[], Policy]:
    return lambda: Selector(SelectorOptions(weights=weights, tail=0.3, low=low, index=index))


ROWS = (
    Row("keep-last", LastN),
    Row("keep-last-sticky", lambda: StickyLastN(0.75)),
    Row("random", RandomDrop),
    Row("cheater", rare_words),
    Row("A", _greedy()),
    Row("A+index", _greedy(0.1), 0.1),
    Row("A-sticky-85", _sticky(0.85, 0.0)),
    Row("A-sticky-85+index", _sticky(0.85, 0.05), 0.05),
    Row("A-sticky-75+index", _sticky(0.75, 0.05), 0.05),
    Row("B", _greedy(weights="B")),
    Row("shipped", Selector, SelectorOptions().index),
)
