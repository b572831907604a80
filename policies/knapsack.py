"""A greedy multiple-choice knapsack: each item climbs its ladder of forms, best score per extra token first. Pure.

Steps of one ladder are worth less and less a token (its upper hull); where a step does not fit, the best
option below it that fits is taken. A larger budget never gives a lower score: rooms on a fixed grid below
the one asked for are looked at as long as any could hold more than what was found.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import NamedTuple

FEW = 160
"""Up to so many options in all, each is tried as the first choice: some milliseconds."""
GRID = 32
"""Tokens between the rooms that are looked at, when there are more options than a few."""
LARGE = 12
"""A step of more than such a part of the room can leave much of it empty."""
_NEARLY = 1e-9
_COST = itemgetter(0)


class Option(NamedTuple):
    """One form an item can take: its tokens, its worth, and what the caller calls it."""

    cost: int
    value: float
    label: int


Step = tuple[float, int, int, int]
"""One upgrade: what it loses a token (so that sorting puts the best first), minus its ladder, to which rung, tokens."""


def _cheapest(option: Option) -> tuple[int, float]:
    return option.cost, -option.value


def frontier(options: Sequence[Option]) -> list[Option]:
    """The options that cost more only where they are worth more, cheapest first."""
    cost, value = -1, float("-inf")
    for option in options:
        if option[0] <= cost or option[1] <= value:
            break
        cost, value = option[0], option[1]
    else:
        return list(options)
    kept: list[Option] = []
    for option in sorted(options, key=_cheapest):
        if not kept or option.value > kept[-1].value:
            kept.append(option)
    return kept


def hull(options: Sequence[Option]) -> list[Option]:
    """The options worth climbing, cheapest first: each next one has a lower worth per extra token."""
    return _climbed(frontier(options))


def _climbed(options: Sequence[Option]) -> list[Option]:
    """The upper hull of a frontier."""
    kept: list[Option] = []
    for option in options:
        cost, value, _ = option
        while len(kept) >= 2:
            below, last = kept[-2], kept[-1]
            if (last[1] - below[1]) * (cost - last[0]) > (value - last[1]) * (last[0] - below[0]):
                break
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
        self.hulls = [_climbed(options) for options in self.frontiers]
        self.is_small = sum(map(len, self.frontiers)) <= FEW
        self._jumps = self._large_steps() if self.is_small else []
        steps: list[Step] = []
        add = steps.append
        for number, climbed in enumerate(self.hulls):
            if not climbed:
                continue
            cost, value, _ = climbed[0]
            for rung, (above, more, _) in enumerate(climbed[1:], 1):
                add(((value - more) / (above - cost), -number, rung, above - cost))
                cost, value = above, more
        steps.sort()
        self.steps = steps
        firsts = [climbed[0] for climbed in self.hulls if climbed]
        self._spent = list(accumulate([step[3] for step in steps], initial=sum(option.cost for option in firsts)))
        gains = [-step[0] * step[3] for step in steps]
        self._bounds = list(accumulate(gains, initial=sum(option.value for option in firsts)))

    def _large_steps(self) -> list[tuple[int, int, Option]]:
        """Every option with its ladder and what it costs more than the one below it."""
        return [
            (above.cost - below.cost, number, above)
            for number, options in enumerate(self.frontiers)
            for below, above in pairwise((Option(0, 0.0, 0), *options))
        ]

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
        rest = -self.steps[at][0] * (room - self._spent[at]) if at < len(self.steps) else 0.0
        return self._bounds[at] + rest

    def best(self, room: int) -> list[Option | None]:
        best = self.climb(room)
        if not self.is_small:
            return best
        # Among few large items the order by density can leave much of the room empty: each is tried as the first.
        worth = _worth(best)
        for extra, number, option in self._jumps:
            if LARGE * extra > room >= option.cost and option is not best[number]:
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
        hulls, frontiers = self.hulls, self.frontiers
        for _, negative, rung, extra in self.steps:
            number = -negative
            if reached[number] != rung - 1:
                continue
            if extra <= left:
                reached[number] = rung
                left -= extra
                chosen[number] = hulls[number][rung]
                continue
            reached[number] = -1
            if left > 0:
                below = hulls[number][rung - 1]
                options = frontiers[number]
                fitting = options[bisect_right(options, below.cost + left, key=_COST) - 1]
                left -= fitting.cost - below.cost
                chosen[number] = fitting
        return chosen


def _worth(chosen: Sequence[Option | None]) -> float:
    return sum(option.value for option in chosen if option is not None)
