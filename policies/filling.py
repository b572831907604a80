"""Chooses which segments of an old region stay word for word in the room there is: the heart of the selector. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from policies.history import Histories, History
from policies.knapsack import Option, solve
from policies.model import Candidate, Situation
from policies.plain import plain_scores, plain_weights
from policies.reading import Reading
from policies.scoring import Focus, Weights, focus, segment_scores
from policies.units import state_bonus

HEADER_TOKENS = 12
"""What an item's header line costs beyond its call's key argument."""
ARGUMENT_CHARS = 70
PLAIN = "plain"
"""The name by which the plain weighted sum is asked for in place of a weight table."""
GAP_TOKENS = 2
COMPLETE_AT = 0.8
"""An excerpt that costs so much of its item is completed."""

Scores = Mapping[int, Sequence[float]]
"""By item: the worth of each of its segments."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Segments to keep by candidate index, each item's score, and what is reckoned with: tokens and worth."""

    keep: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    scores: Mapping[int, float] = field(default_factory=dict)
    tokens: int = 0
    worth: float = 0.0


def header_tokens(candidate: Candidate) -> int:
    """The line over an item's kept segments: id, role or tool, how many lines, the call."""
    argument = min(ARGUMENT_CHARS, len(candidate.source)) if candidate.kind == "tool_result" else 0
    return HEADER_TOKENS + -(-argument // 3)


def filler(table: str = "A", adjust: Mapping[str, float] | None = None) -> Filler:
    """A filler with a shipped weight table or the "plain" weighted sum, single weights replaced."""
    return Filler(plain_weights(adjust or {}) if table == PLAIN else Weights.make(table, adjust))


class Filler:
    """Scores by the linear model or the plain sum; remembers what it has read: a call reads only what is new."""

    def __init__(self, weights: Weights | Mapping[str, float]) -> None:
        self.weights = weights
        self.histories = Histories()

    def fill(self, situation: Situation, indices: Sequence[int], room: int) -> Filling:
        """What of the items at `indices` stays, in at most `room` tokens by estimate."""
        if room <= 0 or not indices:
            return Filling()
        candidates = situation.candidates
        history = self.histories.of(candidates)
        now = focus(history, situation.query)
        scores = self.scores(history, indices, now, candidates)
        bonus = state_bonus(history, indices, now)
        return choose(candidates, history, indices, scores, bonus, room)

    def scores(self, history: History, indices: Sequence[int], now: Focus, candidates: Sequence[Candidate]) -> Scores:
        """For each item the worth of every segment. Replace it to score otherwise."""
        if isinstance(self.weights, Weights):
            return segment_scores(history, indices, self.weights, now, candidates)
        return plain_scores(history, indices, self.weights, now, candidates)


def choose(
    candidates: Sequence[Candidate], history: History, indices: Sequence[int], scores: Mapping[int, Sequence[float]],
    bonus: Mapping[int, float], room: int,
) -> Filling:  # fmt: skip
    """The best segments in `room`: one ladder an item, from nothing over more and more lines to the whole."""
    ladders: list[list[Option]] = []
    orders: list[list[int]] = []
    for index in indices:
        reading = history.readings[index]
        order = by_density(reading, scores[index])
        orders.append(order)
        header = header_tokens(candidates[index])
        ladders.append(ladder(reading, order, scores[index], header, bonus.get(index, 0.0)))
    chosen = solve(ladders, room)
    keep: dict[int, tuple[int, ...]] = {}
    tokens = 0
    worth = 0.0
    totals: dict[int, float] = {}
    for index, option, order in zip(indices, chosen, orders, strict=True):
        totals[index] = sum(scores[index]) + bonus.get(index, 0.0)
        if option is not None and option.label:
            keep[index] = tuple(sorted(order[: option.label]))
            tokens += option.cost
            worth += option.value
    return Filling(keep, totals, tokens, worth)


def by_density(reading: Reading, scores: Sequence[float]) -> list[int]:
    """Segments of one item, best score per token first; ties in their own order."""
    losses = [-score / (size + 1) for score, size in zip(scores, reading.sizes, strict=True)]
    return sorted(range(len(losses)), key=losses.__getitem__)


def ladder(reading: Reading, order: Sequence[int], scores: Sequence[float], header: int, bonus: float) -> list[Option]:
    """The levels of one item: the best k segments for each k, and at the end the whole, which alone earns the bonus."""
    sizes = reading.sizes
    whole = max(reading.tokens, sum(sizes)) + header
    enough = COMPLETE_AT * whole
    options = [Option(0, 0.0, 0)]
    made, add = Option._make, options.append
    kept = bytearray(len(order) + 2)
    cost = header
    value = 0.0
    runs = 0
    for count, number in enumerate(order, 1):
        new = (
            1 - kept[number] - kept[number + 2]
        )  # runs more: one, none where it joins one, one less where it joins two
        kept[number + 1] = 1
        cost += sizes[number] + (new * GAP_TOKENS if runs else 0)
        runs += new
        value += scores[number]
        if cost >= enough:
            break
        add(made((cost, value, count)))
    if order:
        add(made((whole, sum(scores) + bonus, len(order))))
    return options
