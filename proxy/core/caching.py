"""What the provider's prompt cache has of a request, as far as our own rows tell. Pure.

A *break* is a request that loses tokens which the request before had read from the cache. One that loses
only what the request before sent for the first time is a *tail change*: written once, never read. Every
place that counts breaks counts these: outcomes and what sums them up, the demonstration, the benches.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from proxy.core.records import Entry
from proxy.core.window import Plan


def is_break(first_change: int, carried: int) -> bool:
    """Is a window that first differs from the last one at entry `first_change` (-1: nowhere) a break?

    `carried` counts the leading entries of the last window that the one before it had as well.
    """
    return 0 <= first_change < carried


def client_break(
    entries: Sequence[Entry], plan: Plan, ids: Sequence[str], seen: Collection[str], absent: Collection[str] = ()
) -> int | None:
    """Index from which the list does not go on from the last window, where items sent before stand behind it.

    `entries` are that window, `plan` what it left out, `absent` what it did not show at all. None while the
    list only grew: what is new was never in a cache, and nothing of it may be reduced.
    """
    covers = frozenset(plan.fold.covers) if plan.fold is not None else frozenset[str]()
    fold = plan.fold.item if plan.fold is not None else ""
    place = 0
    for index, item in enumerate(ids):
        if place == len(entries):
            return None
        if item in covers:
            if entries[place].item == fold:
                place += 1
            continue
        if item in absent:
            continue
        if entries[place].item != item:
            return index if any(later in seen for later in ids[index:]) else None
        place += 1
    return None
