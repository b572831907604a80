"""Scores segments: how likely is it that the agent will need this line again? A linear model over plain features. Pure.

The features look at the prefix only: kind of text, whether the line occurs again later, age,
position, later use of its words, and nearness to the newest exchange.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

from policies.history import RARE, History
from policies.kinds import TextKind
from policies.model import Candidate
from policies.reading import Reading

Scorer = Literal["linear", "plain"]

HEAT_EXCHANGES = 6
HEAT_DECAY = 0.7
KINDS: tuple[TextKind, ...] = (
    "read", "search", "run", "edit", "git", "other", "api", "think", "args", "eargs", "user",
)  # fmt: skip
_SEGMENT = (
    "ltok",
    "def",
    "blank",
    "punct",
    "first5",
    "duplater",
    "lateruse",
    "cited",
    "uncited",
    "qhot",
    "q1",
    "query",
)
_ITEM = (
    "bias", "lpos", "litemtok", "lnseg", "lage", "agefrac", "itemcited", "hotobj", "lastobj",
    "importance", "stale", "inbound", "subtask",
)  # fmt: skip
OWN: Mapping[str, float] = {"query": 3.0, "importance": 2.0, "stale": -1.0, "inbound": 0.0, "subtask": 0.0}
"""Weights of what the recorded runs cannot teach: a question asked, importance and staleness told."""


@cache
def shipped() -> dict[str, dict[str, dict[str, float]]]:
    """The weight tables that come with the package."""
    data = json.loads(files("policies").joinpath("data/selector_weights.json").read_text(encoding="utf-8"))
    return {"weights": data["weights"], "state": {"state": data["state"]}}


@dataclass(frozen=True, slots=True)
class Weights:
    """A weight table made ready: for each kind of text, feature → weight with the kind's own terms added in."""

    by_kind: Mapping[TextKind, Mapping[str, float]]

    @classmethod
    def make(cls, table: str = "A", overrides: Mapping[str, float] | None = None) -> Weights:
        """The shipped table with single weights replaced; raises `ValueError` for a name that is no feature."""
        tables = shipped()["weights"]
        if table not in tables:
            raise ValueError(f"no weight table {table!r}; there are {', '.join(sorted(tables))}")
        flat = {**OWN, **tables[table], **(overrides or {})}
        known = {*_SEGMENT, *_ITEM, *KINDS}
        for name in flat:
            if not set(name.split("*")) <= known:
                raise ValueError(f"no feature {name!r}")
        by_kind: dict[TextKind, dict[str, float]] = {}
        for kind in KINDS:
            row = {name: flat.get(name, 0.0) + flat.get(f"{kind}*{name}", 0.0) for name in (*_SEGMENT, *_ITEM)}
            row["bias"] += flat.get(kind, 0.0)
            by_kind[kind] = row
        return cls(by_kind)


@dataclass(frozen=True, slots=True)
class Focus:
    """What the run is about just now: weights of words, objects of the last exchanges, words asked for."""

    hot: Mapping[str, float]
    last: Collection[str]
    hot_objects: frozenset[str]
    last_objects: frozenset[str]
    query: Mapping[str, float] = field(default_factory=dict)


def focus(history: History, query: str = "") -> Focus:
    """The words of the last exchanges with their heat times rarity; a query is a literal text of words."""
    count = len(history) + 1
    held_by = history.held_by
    heat: dict[str, float] = {}
    objects: set[str] = set()
    newest = history.newest
    for back in range(HEAT_EXCHANGES):
        exchange = history.exchanges.get(newest - back)
        if exchange is None:
            continue
        if back < 4:
            objects |= exchange.objects
        for index in exchange.items:
            for word in history.readings[index].words:
                heat.setdefault(word, HEAT_DECAY**back)
    hot = {word: value * math.log(count / held_by[word]) for word, value in heat.items()}
    last = {word for word, value in heat.items() if value == 1.0}
    last_exchange = history.exchanges.get(newest)
    asked = {word: math.log(count / held_by.get(word, 1)) for word in _words(query) if held_by.get(word, 0) < count}
    return Focus(hot, last, frozenset(objects), last_exchange.objects if last_exchange else frozenset(), asked)


def _words(text: str) -> list[str]:
    return [word for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split() if len(word) > 2]


def segment_scores(
    history: History, indices: Sequence[int], weights: Weights, now: Focus, candidates: Sequence[Candidate]
) -> dict[int, list[float]]:
    """For each item the probability of every segment that it will be needed now."""
    counts = _Counts(history)
    return {index: _item_scores(history, index, weights, now, candidates[index], counts) for index in indices}


class _Counts:
    """Figures of the whole run that every item is measured by."""

    def __init__(self, history: History) -> None:
        self.newest = history.newest
        self.tokens = max(1, history.tokens)
        self.log = [0.0, *(math.log1p(n) for n in range(1, 4096))]

    def log1p(self, n: int) -> float:
        return self.log[n] if n < 4096 else math.log1p(n)


def _item_scores(
    history: History, index: int, weights: Weights, now: Focus, candidate: Candidate, counts: _Counts
) -> list[float]:
    standing = history.standing.get(index)
    if standing is None:
        standing = history.standing[index] = _standing(history, index, weights, counts)
    reading = history.readings[index]
    moving = _moving(history, index, weights, now, candidate, counts)
    lines = reading.lines
    if len(moving) == 1:
        (base,) = moving.values()
        sums = [z + base for z in standing]
    else:
        sums = [moving[line.kind] + z for line, z in zip(lines, standing, strict=True)]
    heat, said, asked = _nearness(reading, now)
    log = math.log
    for number, value in heat.items():
        row = weights.by_kind[lines[number].kind]
        sums[number] += row["qhot"] * log(1.0 + value)
        if number in said:
            sums[number] += row["q1"] * log(1.0 + said[number])
    for number, value in asked.items():
        sums[number] += weights.by_kind[lines[number].kind]["query"] * log(1.0 + value)
    exp = math.exp
    return [1.0 / (1.0 + exp(-z)) if z > -60.0 else 0.0 for z in sums]


def _moving(
    history: History, index: int, weights: Weights, now: Focus, candidate: Candidate, counts: _Counts
) -> dict[TextKind, float]:
    """What every segment of an item has in common and changes from call to call, for each kind of text in it."""
    objects = history.exchanges[history.calls[index]].objects
    age = counts.log1p(max(0, counts.newest - history.calls[index]))
    back = (counts.tokens - history.ends[index]) / counts.tokens
    is_hot = not objects.isdisjoint(now.hot_objects)
    is_last = not objects.isdisjoint(now.last_objects)
    found: dict[TextKind, float] = {}
    for kind in history.readings[index].kinds:
        row = weights.by_kind[kind]
        z = row["lage"] * age + row["agefrac"] * back
        if is_hot:
            z += row["hotobj"]
        if is_last:
            z += row["lastobj"]
        if candidate.importance:
            z += row["importance"] * candidate.importance
        if candidate.is_stale:
            z += row["stale"]
        found[kind] = z
    return found


def _still(history: History, index: int, weights: Weights, counts: _Counts) -> dict[TextKind, float]:
    """What every segment of an item has in common and stays, for each kind of text in it."""
    reading = history.readings[index]
    used = sum(history.last_said.get(word, -1) > index for word in reading.words if history.first[word] == index)
    item = {
        "bias": 1.0,
        "lpos": counts.log1p(index),
        "litemtok": counts.log1p(reading.tokens),
        "lnseg": counts.log1p(len(reading.lines)),
        "itemcited": counts.log1p(used),
    }
    rows = {kind: weights.by_kind[kind] for kind in reading.kinds}
    return {kind: sum(row[name] * value for name, value in item.items()) for kind, row in rows.items()}


def _standing(history: History, index: int, weights: Weights, counts: _Counts) -> list[float]:
    """The part of each segment's score that stays until a new item uses its words or repeats its line."""
    reading = history.readings[index]
    log1p = counts.log1p
    later, cited, uncited = _word_counts(history, index, reading)
    last_line = history.last_line
    still = _still(history, index, weights, counts)
    parts: list[float] = []
    for number, line in enumerate(reading.lines):
        row = weights.by_kind[line.kind]
        z = still[line.kind] + row["ltok"] * line.log_tokens
        if line.is_def:
            z += row["def"]
        if line.is_punct:
            z += row["punct"]
        if line.is_blank:
            z += row["blank"]
        if number < 5:
            z += row["first5"]
        if line.mark and last_line[line.mark] > index:
            z += row["duplater"]
        if later[number]:
            z += row["lateruse"] * log1p(later[number])
        if cited[number]:
            z += row["cited"] * log1p(cited[number])
        if uncited[number]:
            z += row["uncited"] * log1p(uncited[number])
        parts.append(z)
    return parts


def _word_counts(history: History, index: int, reading: Reading) -> tuple[list[int], list[int], list[int]]:
    """For each segment: its rare words seen later, its own words that the agent used, and those it did not."""
    later, cited, uncited = ([0] * len(reading.lines) for _ in range(3))
    first, last, last_said, held_by = history.first, history.last, history.last_said, history.held_by
    for word, places in reading.places.items():
        is_later = held_by[word] <= RARE and last[word] > index
        is_own = first[word] == index
        if not is_later and not is_own:
            continue
        is_used = is_own and last_said.get(word, -1) > index
        for number in places:
            later[number] += is_later
            if is_own:
                (cited if is_used else uncited)[number] += 1
    return later, cited, uncited


def _nearness(reading: Reading, now: Focus) -> tuple[dict[int, float], dict[int, float], dict[int, float]]:
    """For segments that hold them: the heat of words used lately, of the last exchange, and of words asked for."""
    heat: dict[int, float] = {}
    said: dict[int, float] = {}
    asked: dict[int, float] = {}
    hot, last, places = now.hot, now.last, reading.places
    # Sorted: floating sums must not depend on how a set is laid out.
    for word in sorted(places.keys() & hot.keys()):
        value = hot[word]
        numbers = places[word]
        for number in numbers:
            heat[number] = heat.get(number, 0.0) + value
        if word in last:
            for number in numbers:
                said[number] = said.get(number, 0.0) + value
    for word, value in now.query.items():
        for number in places.get(word, ()):
            asked[number] = asked.get(number, 0.0) + value
    return heat, said, asked
