"""State units: the newest result about each object, kept whole, with a score of its own. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from policies.history import Exchange, History
from policies.scoring import Focus, shipped

UNIT_WEIGHT = 4.0
"""What a whole state unit counts beside the sum of its lines."""


def state_bonus(history: History, indices: Collection[int], now: Focus) -> dict[int, float]:
    """For items of results that are the newest about some object: the worth of having the whole unit.

    A unit is all the results of one exchange; its worth is spread over them by tokens.
    """
    allowed = frozenset(indices)
    newest = history.newest
    owned: dict[int, list[str]] = {}
    for call in sorted(history.exchanges, reverse=True):
        exchange = history.exchanges[call]
        if call >= newest or not exchange.objects or not exchange.results:
            continue
        owned[call] = []
    taken: set[str] = set()
    for call in sorted(history.exchanges, reverse=True):
        if call >= newest:
            continue
        for name in sorted(history.exchanges[call].objects):
            if name not in taken:
                taken.add(name)
                if call in owned:
                    owned[call].append(name)
    bonus: dict[int, float] = {}
    for call, names in owned.items():
        results = history.exchanges[call].results
        if not names or not allowed.issuperset(results):
            continue
        worth = UNIT_WEIGHT * unit_score(history, call, names, now)
        tokens = sum(history.readings[index].tokens for index in results) or 1
        for index in results:
            bonus[index] = worth * history.readings[index].tokens / tokens
    return bonus


def unit_score(history: History, call: int, names: Collection[str], now: Focus) -> float:
    """How likely the unit of an exchange is needed whole now, as the newest about `names`."""
    exchange = history.exchanges[call]
    weights: Mapping[str, float] = shipped()["state"]["state"]
    z = weights["bias"] + sum(weights[name] * value for name, value in _features(history, call, exchange, names, now))
    return 1.0 / (1.0 + math.exp(-z))


def _features(
    history: History, call: int, exchange: Exchange, names: Collection[str], now: Focus
) -> list[tuple[str, float]]:
    tokens = sum(history.readings[index].tokens for index in exchange.results)
    total = max(1, history.tokens)
    kind = {"git": "run", "other": "run"}.get(exchange.kind, exchange.kind)
    found = [
        ("lage", math.log1p(history.newest - call)),
        ("agefrac", (total - history.ends[exchange.results[-1]]) / total),
        ("lcost", math.log1p(tokens)),
        ("objcount", math.log1p(max(history.named[name] for name in names))),
        ("objedited", float(any(history.edited.get(name, call) < call for name in names))),
        ("hotobj", float(not now.hot_objects.isdisjoint(names))),
        ("nobj", math.log1p(len(names))),
    ]
    if kind in ("read", "search", "run", "edit", "api"):
        found.append((kind, 1.0))
    if kind == "edit":
        found.append(("wrote", 1.0))
    return found
