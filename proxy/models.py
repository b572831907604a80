"""What is known of each model at this provider: limits, prices, billed per counted tokens, what it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from proxy.config import Config
from proxy.core.pricing import ModelFacts
from proxy.core.records import Batch, LearnedRow
from proxy.core.thresholds import Thresholds, thresholds
from proxy.core.tokens import Calibration
from proxy.prices import PriceBook

log = structlog.get_logger()

REPLY_SHARE = 0.1
"""Share of the window kept for the reply when the request does not cap it."""
RATIO_STEP = 0.002
"""A smaller change of a ratio is not worth a row."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """One model's figures for one request. Thresholds are in billed tokens, `ratio` is billed per counted."""

    facts: ModelFacts
    thresholds: Thresholds
    ratio: float

    def reply_allowance(self, asked: int | None) -> int:
        """Tokens to keep free for the reply: what the request asks for, else a share of the window."""
        if asked is not None:
            return min(asked, self.facts.window)
        return min(self.facts.max_output or self.facts.window, int(REPLY_SHARE * self.facts.window))

    def counted(self, billed: float) -> int:
        """Billed tokens as tokens of our own counting."""
        return int(billed / self.ratio)

    def billed(self, counted: float) -> int:
        return int(counted * self.ratio)


class ModelBook:
    """Facts by model name; learns from what the provider says and keeps it as rows for the store."""

    def __init__(self, config: Config, prices: PriceBook, learned: Iterable[LearnedRow] = ()) -> None:
        self._config = config
        self._prices = prices
        self._upstream = config.upstream.url
        self._limits: dict[str, int] = {}
        # As the store has them and nothing beside: after a restart, and on every replica, the next bill does the same.
        self._ratios: dict[str, float] = {}
        self.refuses_usage = False
        self._cache: dict[str, ModelLimits] = {}
        self._told: set[str] = set()  # models for which the operator's threshold cannot act
        self._known: frozenset[LearnedRow] = frozenset()  # as the store had them when it was last asked
        self.recall(learned)

    def recall(self, learned: Iterable[LearnedRow]) -> None:
        """What the store knows now: another replica may have learned since."""
        rows = frozenset(learned)
        for row in rows - self._known:
            if row.upstream == self._upstream:
                self._recall(row)
        self._known = rows

    def _recall(self, row: LearnedRow) -> None:
        self._cache.pop(row.model, None)
        if row.name == "limit":
            self._limits[row.model] = int(row.value)
        elif row.name == "ratio":
            self._ratios[row.model] = row.value
        elif row.name == "refuses_usage":
            self.refuses_usage = bool(row.value)

    def limits(self, model: str) -> ModelLimits:
        known = self._cache.get(model)
        if known is None:
            facts = self._prices.facts(model, learned_limit=self._limits.get(model))
            window = self._config.window
            asked = self._config.model(model).compact_at or window.compact_at or None
            marks = thresholds(
                facts.window,
                facts.cliff,
                compact_at=asked,
                target_share=window.target_share,
                guard_cliff_share=window.guard_cliff_share,
                guard_window_share=window.guard_window_share,
            )
            if asked and asked != marks.compact_at and model not in self._told:
                self._told.add(model)
                log.warning("compact_at_cannot_act", model=model[:200], asked=asked, used=marks.compact_at)
            known = ModelLimits(facts, marks, self._ratios.get(model, Calibration().ratio))
            if len(self._cache) > 1000:
                self._cache.clear()
                self._told.clear()
            self._cache[model] = known
        return known

    def learn_limit(self, model: str, limit: int) -> Batch:
        """The provider named its limit: it wins over every table from now on."""
        if self._limits.get(model) == limit:
            return Batch()
        self._limits[model] = limit
        self._cache.pop(model, None)
        return self._row(model, "limit", limit)

    def learn_usage(self, model: str, *, billed: int, counted: int) -> Batch:
        """One more bill for a request that we counted."""
        written = self._ratios.get(model)
        old = Calibration() if written is None else Calibration(ratio=written, samples=1)
        new = old.updated(billed=billed, counted=counted)
        if new is old or (written is not None and abs(new.ratio - written) < RATIO_STEP * written):
            return Batch()
        self._ratios[model] = new.ratio
        self._cache.pop(model, None)
        return self._row(model, "ratio", new.ratio)

    def learn_refusal(self) -> Batch:
        """This provider refuses the usage option."""
        self.refuses_usage = True
        return self._row("", "refuses_usage", 1.0)

    def _row(self, model: str, name: str, value: float) -> Batch:
        return Batch(learned=(LearnedRow(self._upstream, model, name, float(value)),))
