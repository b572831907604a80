"""The plain weighted sum: an item's score from recency, references, relevance, current subtask and importance. Pure.

Nothing is learned and every term can be said in words; the linear model of `scoring` finds more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from policies.history import History
from policies.model import Candidate
from policies.scoring import Focus

DEFAULT: Mapping[str, float] = {
    "recency": 1.0, "inbound": 0.5, "relevance": 1.0, "subtask": 0.5, "importance": 1.0, "stale": -0.5,
}  # fmt: skip
"""Weights of the terms; each term lies about between 0 and 1."""
SATURATION = 1.2
LENGTH_SHARE = 0.75
PER_TOKEN = 0.01
"""Scores are worth a token, so that a long item is not better for being long."""


def plain_weights(overrides: Mapping[str, float]) -> Mapping[str, float]:
    """The default weights with single ones replaced; raises `ValueError` for a name that is no term."""
    for name in overrides:
        if name not in DEFAULT:
            raise ValueError(f"no term {name!r}; there are {', '.join(DEFAULT)}")
    return {**DEFAULT, **overrides}


def plain_scores(
    history: History, indices: Sequence[int], weights: Mapping[str, float], now: Focus, candidates: Sequence[Candidate]
) -> dict[int, list[float]]:
    """For each item the score of every segment: the item's sum, and for its own words the relevance to the question."""
    inbound: dict[str, int] = {}
    for candidate in candidates:
        for cited in candidate.cites:
            inbound[cited] = inbound.get(cited, 0) + 1
    scores: dict[int, list[float]] = {}
    best = sum(now.query.values()) or 1.0
    for index in indices:
        candidate = candidates[index]
        reading = history.readings[index]
        objects = history.exchanges[history.calls[index]].objects
        base = (
            weights["recency"] / (1.0 + max(0, history.newest - history.calls[index]))
            + weights["inbound"] * (1.0 - 1.0 / (1.0 + inbound.get(candidate.id, 0)))
            + weights["subtask"] * (not objects.isdisjoint(now.hot_objects))
            + weights["importance"] * candidate.importance
            + weights["stale"] * candidate.is_stale
        )
        found = [0.0] * len(reading.lines)
        for word, value in now.query.items():
            for number in reading.places.get(word, ()):
                found[number] += value
        mean = max(1.0, sum(line.tokens for line in reading.lines) / max(1, len(reading.lines)))
        scores[index] = [
            max(0.0, base + weights["relevance"] * _bm25(said, line.tokens, mean) / best) * line.tokens * PER_TOKEN
            for said, line in zip(found, reading.lines, strict=True)
        ]
    return scores


def _bm25(idf: float, tokens: int, mean: float) -> float:
    """The summed rarity of the words that a line shares with the question, as BM25 weighs it by length."""
    if not idf:
        return 0.0
    length = 1.0 - LENGTH_SHARE + LENGTH_SHARE * tokens / mean
    return idf * (SATURATION + 1.0) / (1.0 + SATURATION * math.sqrt(length))
