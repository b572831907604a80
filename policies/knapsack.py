"""A greedy multiple-choice knapsack: each item climbs its ladder of forms, best score per extra token first. Pure.

Steps of one ladder are worth less and less a token (its upper hull); where a step does not fit, the best
option below it that fits is taken. A larger budget never gives a lower score: rooms on a fixed grid below
the one asked for are looked at as long as any could hold more than what was found.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

FEW = 160
"""Up to so many options in all, each is tried as the first choice: some milliseconds."""
GRID = 32
"""Tokens between the rooms that are looked at, when there are more options than a few."""
_NEARLY = 1e-9


class Option(NamedTuple):
    """One form an item can take: its tokens, its worth, and what the caller calls it."""

    cost: int
    value: float
    label: int


class Step(NamedTuple):
    """One upgrade: what it loses a token (so that sorting puts the best first), of which ladder, to which rung."""

    loss: float
    negative_ladder: int
    rung: int
    extra: int


def _cheapest(option: Option) -> tuple[int, float]:
    return option.cost, -option.value


def frontier(options: Sequence[Option]) -> list[Option]:
    """The options that cost more only where they are worth more, cheapest first."""
    kept: list[Option] = []
    for option in sorted(options, key=_cheapest):
        if not kept or option.value > kept[-1].value:
            kept.append(option)
    return kept


def hull(options: Sequence[Option]) -> list[Option]:
    """The options worth climbing, cheapest first: each next one has a lower worth per extra token."""
    kept: list[Option] = []
    for option in frontier(options):
        while len(kept) >= 2 and (kept[-1].value - kept[-2].value) * (option.cost - kept[-1].cost) <= (
            option.value - kept[-1].value
        ) * (kept[-1].cost - kept[-2].cost):
            kept.pop()
        kept.append(option)
    return kept


def solve(ladders: Sequence[Sequence[Option]], room: int) -> list[Option | None]:
    """One option for each ladder within `room`, or None where not even its first fits.

    A ladder's first option is what the item costs in any case (0 when it may be absent); those are
    paid first, in order. Ties go to the later ladder: it is newer.
    """
    return Problem(ladders).solve(room)


class Problem:
    """Ladders made ready, to be solved for any room: what is prepared does not depend on it."""

    def __init__(self, ladders: Sequence[Sequence[Option]]) -> None:
        self.frontiers = [frontier(options) for options in ladders]
        self.hulls = [hull(options) for options in self.frontiers]
        self.costs = [[option.cost for option in options] for options in self.frontiers]
        self.is_small = sum(map(len, self.frontiers)) <= FEW
        self.steps: list[Step] = []
        for number, climbed in enumerate(self.hulls):
            for rung, (below, above) in enumerate(pairwise(climbed), 1):
                extra = above.cost - below.cost
                self.steps.append(Step((below.value - above.value) / extra, -number, rung, extra))
        self.steps.sort()
        firsts = [climbed[0] for climbed in self.hulls if climbed]
        self._spent = [sum(option.cost for option in firsts)]
        self._bounds = [sum(option.value for option in firsts)]
        for step in self.steps:
            self._spent.append(self._spent[-1] + step.extra)
            self._bounds.append(self._bounds[-1] - step.loss * step.extra)

    def solve(self, room: int) -> list[Option | None]:
        """As `solve`."""
        grid = 1 if self.is_small else GRID
        at = room - room % grid
        best = self.best(at)
        worth = _worth(best)
        while at >= grid:
            at -= grid
            if self.bound(at) <= worth + _NEARLY:
                break
            other = self.best(at)
            if _worth(other) > worth + _NEARLY:
                best, worth = other, _worth(other)
        return best

    def bound(self, room: int) -> float:
        """More than this no choice can be worth: the last step taken in part."""
        at = bisect_right(self._spent, room) - 1
        if at < 0:
            return self._bounds[0]
        rest = -self.steps[at].loss * (room - self._spent[at]) if at < len(self.steps) else 0.0
        return self._bounds[at] + rest

    def best(self, room: int) -> list[Option | None]:
        best = self.climb(room)
        if not self.is_small:
            return best
        # Among few large items the order by density can leave much of the room empty: each is tried as the first.
        worth = _worth(best)
        for number, options in enumerate(self.frontiers):
            for option in options:
                if option.cost <= room and option is not best[number]:
                    tried = self.climb(room, (number, option))
                    if _worth(tried) > worth + _NEARLY:
                        best, worth = tried, _worth(tried)
        return best

    def climb(self, room: int, fixed: tuple[int, Option] | None = None) -> list[Option | None]:
        """Take every step that fits, in order; a ladder of which a step did not fit takes what fits, and stays."""
        left = room
        chosen: list[Option | None] = [None] * len(self.hulls)
        reached = [-1] * len(self.hulls)
        if fixed is not None:
            chosen[fixed[0]] = fixed[1]
            left -= fixed[1].cost
        for number, climbed in enumerate(self.hulls):
            if climbed and chosen[number] is None and climbed[0].cost <= left:
                left -= climbed[0].cost
                reached[number] = 0
                chosen[number] = climbed[0]
        for _, negative, rung, extra in self.steps:
            number = -negative
            if reached[number] != rung - 1:
                continue
            if extra <= left:
                reached[number] = rung
                left -= extra
                chosen[number] = self.hulls[number][rung]
                continue
            reached[number] = -1
            below = self.hulls[number][rung - 1]
            if left > 0:
                fitting = self.frontiers[number][bisect_right(self.costs[number], below.cost + left) - 1]
                left -= fitting.cost - below.cost
                chosen[number] = fitting
        return chosen


def _worth(chosen: Sequence[Option | None]) -> float:
    return sum(option.value for option in chosen if option is not None)
