"""A greedy multiple-choice knapsack: each item climbs its ladder of forms, best score per extra token first. Pure.

Steps of one ladder get less and less worth a token (the upper hull), so the order is fixed before the
budget is known: a larger budget takes the same steps and then more, and its score is never lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FEW = 160
"""Up to so many options in all, each is tried as the first choice: some milliseconds."""


class Option(NamedTuple):
    """One form an item can take: its tokens, its worth, and what the caller calls it."""

    cost: int
    value: float
    label: int


def _cheapest(option: Option) -> tuple[int, float]:
    return option.cost, -option.value


def hull(options: Sequence[Option]) -> list[Option]:
    """The options worth climbing, cheapest first: each next one has a lower worth per extra token."""
    kept: list[Option] = []
    for option in sorted(options, key=_cheapest):
        if kept and option.value <= kept[-1].value:
            continue
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
    hulls = [hull(options) for options in ladders]
    steps = _steps(hulls)
    best = _climb(hulls, steps, room)
    if sum(len(options) for options in ladders) > FEW:
        return best
    # Among few large items the order by density can leave much of the room empty: each option is tried as the first.
    worth = _worth(best)
    for number, options in enumerate(ladders):
        for option in options:
            if option.cost > room or option is best[number]:
                continue
            tried = _climb(hulls, steps, room, (number, option))
            if _worth(tried) > worth + 1e-9:
                best, worth = tried, _worth(tried)
    return best


def _steps(hulls: Sequence[Sequence[Option]]) -> list[tuple[float, int, int, int]]:
    """Every upgrade of every ladder, best worth per extra token first: rate, ladder, rung, extra tokens."""
    steps: list[tuple[float, int, int, int]] = []
    for number, climbed in enumerate(hulls):
        for rung in range(1, len(climbed)):
            below, above = climbed[rung - 1], climbed[rung]
            extra = above.cost - below.cost
            steps.append(((below.value - above.value) / extra, -number, rung, extra))
    steps.sort()
    return steps


def _climb(
    hulls: Sequence[Sequence[Option]],
    steps: Sequence[tuple[float, int, int, int]],
    room: int,
    fixed: tuple[int, Option] | None = None,
) -> list[Option | None]:
    """Take every step that fits, in order; a ladder of which one step did not fit stays where it is."""
    reached = [-1] * len(hulls)
    left = room
    taken = -1
    if fixed is not None:
        taken = fixed[0]
        left -= fixed[1].cost
    for number, climbed in enumerate(hulls):
        if climbed and number != taken and climbed[0].cost <= left:
            left -= climbed[0].cost
            reached[number] = 0
    for _, negative, rung, extra in steps:
        if extra <= left and reached[-negative] == rung - 1 and -negative != taken:
            left -= extra
            reached[-negative] = rung
    chosen = [climbed[rung] if rung >= 0 else None for climbed, rung in zip(hulls, reached, strict=True)]
    if fixed is not None:
        chosen[taken] = fixed[1]
    return chosen


def _worth(chosen: Sequence[Option | None]) -> float:
    return sum(option.value for option in chosen if option is not None)
