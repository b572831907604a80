"""What a model costs and holds, as values, and what a bill comes to. Pure: `proxy.prices` finds the facts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from policies.model import Prices
from proxy.core.model import Usage

CACHE_STEP = 128
"""Providers cache prefixes in steps of this many tokens."""
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars per million tokens. Without a discount or a premium `cached` or `written` equals `input`."""

    input: float
    cached: float
    written: float
    output: float


@dataclass(frozen=True, slots=True)
class Cliff:
    """Beyond `above` input tokens the whole request is billed at `rates`; None where only the place is known."""

    above: int
    rates: Rates | None = None


@dataclass(frozen=True, slots=True)
class ServiceTier:
    """Other rates for the same model, by the tier that served the request."""

    name: str
    rates: Rates
    cliffs: tuple[Cliff, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model at one upstream. `window` is what the input may reach: the smaller of total and largest input."""

    window: int
    max_input: int | None = None
    max_output: int | None = None
    total_window: int | None = None
    cliffs: tuple[Cliff, ...] = ()
    rates: Rates | None = None
    tiers: tuple[ServiceTier, ...] = ()
    cache_min: int = 1024
    source: str = "default"

    @property
    def cliff(self) -> int | None:
        """The first cliff: the last input size at the base price."""
        return self.cliffs[0].above if self.cliffs else None

    @property
    def ratios(self) -> Prices:
        """Price ratios as a policy reads them; its own defaults where no price is known."""
        if self.rates is None or not self.rates.input:
            return Prices()
        base = self.rates.input
        return Prices(self.rates.cached / base, self.rates.written / base, self.rates.output / base)

    def rates_at(self, input_tokens: int, service_tier: str | None = None) -> Rates | None:
        """The rates that a whole request of this input size is billed at."""
        rates, cliffs = self.rates, self.cliffs
        for tier in self.tiers:
            if tier.name == service_tier:
                rates, cliffs = tier.rates, tier.cliffs
        for cliff in cliffs:
            if input_tokens > cliff.above and cliff.rates is not None:
                rates = cliff.rates
        return rates


def cost(usage: Usage, facts: ModelFacts, *, service_tier: str | None = None) -> float | None:
    """Dollars for one bill; the provider's own figure wins. None where no price is known."""
    if usage.cost is not None:
        return usage.cost
    rates = facts.rates_at(usage.input, service_tier)
    if rates is None:
        return None
    # Cached and written tokens are parts of the input, never more than it.
    cached = min(usage.cached, usage.input)
    written = min(usage.written, usage.input - cached)
    fresh = usage.input - cached - written
    total = fresh * rates.input + cached * rates.cached + written * rates.written + usage.output * rates.output
    return total / MILLION


def direct_usage(
    input_tokens: int, previous_input: int, output: int, facts: ModelFacts, *, is_cold: bool = False
) -> Usage:
    """What the same call would have been billed without us: everything sent, the previous request's prefix cached."""
    cached = 0 if is_cold else min(previous_input, input_tokens) // CACHE_STEP * CACHE_STEP
    if cached < facts.cache_min:
        cached = 0
    is_charged = facts.rates is not None and facts.rates.written != facts.rates.input
    return Usage(input_tokens, output, cached, input_tokens - cached if is_charged else 0, is_estimated=True)


def direct_cost(
    input_tokens: int,
    previous_input: int,
    output: int,
    facts: ModelFacts,
    *,
    is_cold: bool = False,
    service_tier: str | None = None,
) -> float | None:
    """Dollars for `direct_usage`: the counterfactual that savings are measured against."""
    usage = direct_usage(input_tokens, previous_input, output, facts, is_cold=is_cold)
    return cost(usage, facts, service_tier=service_tier)


def with_limit(facts: ModelFacts, limit: int) -> ModelFacts:
    """The facts with the limit that the provider itself named, which wins over every table."""
    return replace(
        facts,
        window=limit,
        max_input=limit if facts.max_input is None else min(facts.max_input, limit),
        total_window=limit if facts.total_window is None else max(limit, min(facts.total_window, limit)),
        cliffs=tuple(cliff for cliff in facts.cliffs if cliff.above < limit),
        source=f"{facts.source}, limit from the provider's error",
    )
