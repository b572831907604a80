"""Fits a window into a budget: pins, the last exchange and a tail in full, and of the rest the most useful lines.

`selector` keeps what it made until the budget is full again; `greedy` solves anew at every call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from policies.draft import Draft, digest_allowance, group_ranges, last_exchange
from policies.filling import Filler, Filling, filler
from policies.model import NOT_OFFERED, Candidate, Choice, Form, Selection, Situation


@dataclass(frozen=True, slots=True)
class SelectorOptions:
    """`weights`: a shipped table ("A", "B"), or "plain" for the plain weighted sum; `adjust` replaces single weights.

    `tail`: share of the room, pins aside, whose newest groups stay whole. `low`: after a rebuild the
    window takes this share of the room, so that it can grow before the next. `index`: most of the room
    that the digest over folded items may take. `margin`: share kept free because tokens of single
    lines are estimated.
    """

    weights: str = "A"
    adjust: Mapping[str, float] = field(default_factory=dict)
    tail: float = 0.5
    low: float = 0.85
    index: float = 0.1
    margin: float = 0.0

    def __post_init__(self) -> None:
        for name in ("tail", "low", "index", "margin"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must be from 0 to 1")
        filler(self.weights, self.adjust)


@dataclass(frozen=True, slots=True)
class Layout:
    """A window by parts: groups that stay whole, items that fold, and the room left for their lines."""

    folded: tuple[int, ...]
    room: int
    index_tokens: int


def lay_out(situation: Situation, room: int, options: SelectorOptions) -> Layout:
    """Pins, the last exchange and a tail in full; every older whole group folds. `room` is for the whole window."""
    candidates = situation.candidates
    edge = last_exchange(candidates)
    groups = group_ranges(candidates)
    foldable = [group for group in groups if _can_fold(candidates, group, edge)]
    pins = sum(c.tokens for c in candidates if c.is_pinned)
    fixed = sum(c.tokens for c in candidates) - sum(candidates[i].tokens for group in foldable for i in group)
    wanted = pins + options.tail * max(0, room - pins)
    used = fixed
    cut = len(foldable)
    while cut and used + (tokens := sum(candidates[i].tokens for i in foldable[cut - 1])) <= wanted:
        used += tokens
        cut -= 1
    folded = tuple(index for group in foldable[:cut] for index in group)
    calls = sum(candidates[index].kind == "tool_result" for index in folded)
    index_tokens = min(digest_allowance(calls), int(options.index * room)) if folded and options.index else 0
    return Layout(folded, max(0, room - used - index_tokens), index_tokens)


def _can_fold(candidates: Sequence[Candidate], group: range, edge: int) -> bool:
    if group.stop > edge:
        return False
    return all(
        candidates[index].is_seen
        and not candidates[index].is_pinned
        and candidates[index].costs[Form.FOLDED] != NOT_OFFERED
        for index in group
    )


class Greedy:
    """Solves anew at every call: the best window for this call, and a broken prompt cache."""

    name = "greedy"
    options_type = SelectorOptions
    fills_room = True
    """It reckons with estimates: asked again where they were short."""

    def __init__(self, options: SelectorOptions | None = None, scorer: Filler | None = None) -> None:
        self.options = options or SelectorOptions()
        self._filler = scorer or filler(self.options.weights, self.options.adjust)

    def select(self, situation: Situation) -> Selection:
        room = _room(situation)
        if sum(candidate.tokens for candidate in situation.candidates) <= room:
            return Selection(tuple(Choice(c.id, Form.FULL, "") for c in situation.candidates))
        return build(situation, room, self.options, self._filler, "over budget")


class Selector:
    """The window before and what is new; when it is full, one rebuild down to `low` of the room."""

    name = "selector"
    options_type = SelectorOptions
    fills_room = True
    """It reckons with estimates: asked again where they were short."""

    def __init__(self, options: SelectorOptions | None = None, scorer: Filler | None = None) -> None:
        self.options = options or SelectorOptions()
        self._filler = scorer or filler(self.options.weights, self.options.adjust)

    def select(self, situation: Situation) -> Selection:
        draft = Draft(situation)
        room = _room(situation)
        if draft.tokens <= room:
            return draft.finish("")
        pins = sum(c.tokens for c in situation.candidates if c.is_pinned)
        low = pins + int(self.options.low * max(0, room - pins))
        return build(situation, low, self.options, self._filler, "full")


def build(situation: Situation, room: int, options: SelectorOptions, filler: Filler, why: str) -> Selection:
    """The selection for a window of at most `room` tokens of items."""
    layout = lay_out(situation, room, options)
    filling = filler.fill(situation, layout.folded, int(layout.room * (1.0 - options.margin)))
    folded = frozenset(layout.folded)
    choices = tuple(
        _folded(candidate, filling)
        if candidate.index in folded
        else Choice(candidate.id, Form.FULL, "pinned" if candidate.is_pinned else "")
        for candidate in situation.candidates
    )
    kept = sum(len(keep) for keep in filling.keep.values())
    reason = (
        f"{why}: folded {len(folded):,} items into {room:,} tokens, {kept:,} segments of {len(filling.keep):,} kept"
    )
    return Selection(choices, reason)


def _folded(candidate: Candidate, filling: Filling) -> Choice:
    keep = filling.keep.get(candidate.index, ())
    score = filling.scores.get(candidate.index, 0.0)
    reason = f"kept {len(keep):,} segments" if keep else "nothing in it scored high enough"
    return Choice(candidate.id, Form.FOLDED, reason, score, keep)


def _room(situation: Situation) -> int:
    room = situation.budget.room
    return min(room, situation.pressure.target) if situation.pressure is not None else room
