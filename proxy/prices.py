"""Finds a model's facts: windows from `data/models.toml`, prices and cliffs from genai-prices, the operator above both.

Never raises for a model it does not know, and never asks the network. A limit that the provider
itself named wins over everything.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.resources
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Protocol

from proxy.core.pricing import Cliff, ModelFacts, Rates, ServiceTier, cost, direct_cost, with_limit

__all__ = ["ModelFacts", "Override", "PriceBook", "cost", "direct_cost"]

DEFAULT_WINDOW = 128_000
SERVICE_TIERS = ("flex", "priority")
CLIFF_INPUT_FACTOR = 2.0
CLIFF_OUTPUT_FACTOR = 1.5
"""What most providers charge beyond a cliff: used where the operator names a cliff and no list has its prices."""
_CACHE_S = 3_600  # some price lists change with the hour
_CACHE_SIZE = 2_048


class Override(Protocol):
    """What the operator knows better about a model; None leaves a figure as it is. `cliff` 0 says there is none."""

    @property
    def window(self) -> int | None: ...
    @property
    def cliff(self) -> int | None: ...
    @property
    def input_price(self) -> float | None: ...
    @property
    def cached_price(self) -> float | None: ...
    @property
    def write_price(self) -> float | None: ...
    @property
    def output_price(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class _Window:
    """One entry of the packaged table."""

    match: tuple[str, ...]
    window: int
    max_input: int | None = None
    max_output: int | None = None
    cache_min: int = 1024
    cliff: bool = True


class PriceBook:
    """Facts by model name for one upstream."""

    def __init__(self, upstream: str = "", overrides: Callable[[str], Override] | None = None) -> None:
        self._upstream = upstream
        self._overrides = overrides
        self._known: dict[tuple[str, int | None, int], ModelFacts] = {}

    async def load(self) -> None:
        """Import the price list in a thread: it takes a quarter of a second and more."""
        await asyncio.to_thread(self.facts, "gpt-5")

    def facts(self, model: str, *, learned_limit: int | None = None) -> ModelFacts:
        """What is known of a model, under any name: with a vendor in front, a date or a variant behind, or empty."""
        key = (model, learned_limit, int(time.time() // _CACHE_S))
        known = self._known.get(key)
        if known is None:
            known = self._find(model, learned_limit)
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            self._known[key] = known
        return known

    def with_cliff(self) -> dict[str, ModelFacts]:
        """Models of the packaged table that this upstream has in its list with a price cliff, by a name of each."""
        names = [entry.match[0].rstrip("*") for entry in _windows()] if self._upstream else []
        listed = {name: self.facts(name) for name in names if _look_up(name, self._upstream) is not None}
        return {name: facts for name, facts in listed.items() if facts.cliff}

    def _find(self, model: str, learned_limit: int | None) -> ModelFacts:
        names = tuple(_names(model))
        facts = _with_prices(_from_table(names), names, self._upstream)
        if self._overrides is not None:
            facts = _overridden(facts, self._overrides(model))
        facts = replace(facts, cliffs=tuple(cliff for cliff in facts.cliffs if cliff.above < facts.window))
        return with_limit(facts, learned_limit) if learned_limit else facts


def _names(model: str) -> Iterator[str]:
    """The name as sent, then without variant, vendor and fine-tuning marks."""
    name = model.strip().lower()[:200]
    if not name:
        return
    yield name
    if name.startswith("ft:"):
        name = name.removeprefix("ft:").partition(":")[0]
        yield name
    for plain in (name.partition(":")[0], name.rpartition("/")[2], name.rpartition("/")[2].partition(":")[0]):
        if plain and plain != name:
            yield plain


# -- windows -------------------------------------------------------------------------------------


@functools.cache
def _windows() -> tuple[_Window, ...]:
    text = importlib.resources.files("proxy").joinpath("data", "models.toml").read_text("utf-8")
    return tuple(_Window(**{**entry, "match": tuple(entry["match"])}) for entry in tomllib.loads(text)["model"])


def _from_table(names: tuple[str, ...]) -> tuple[ModelFacts, _Window | None]:
    for name in reversed(names):
        for entry in _windows():
            if any(fnmatchcase(name, pattern) for pattern in entry.match):
                facts = ModelFacts(
                    window=min(entry.window, entry.max_input or entry.window),
                    max_input=entry.max_input,
                    max_output=entry.max_output,
                    total_window=entry.window,
                    cache_min=entry.cache_min,
                    source="built-in table",
                )
                return facts, entry
    return ModelFacts(window=DEFAULT_WINDOW), None


# -- prices --------------------------------------------------------------------------------------


@functools.cache
def _price_list() -> Any | None:
    try:
        return importlib.import_module("genai_prices")
    except ImportError:
        return None


def _with_prices(found: tuple[ModelFacts, _Window | None], names: tuple[str, ...], upstream: str) -> ModelFacts:
    facts, entry = found
    listed = _listed(names, upstream)
    if listed is None:
        return facts
    calculation, name, url = listed
    rates = _rates(calculation.model_price, 0)
    cliffs = _cliffs(calculation.model_price) if entry is None or entry.cliff else ()
    if entry is None and calculation.model.context_window:
        facts = replace(facts, window=calculation.model.context_window, total_window=calculation.model.context_window)
    tiers = tuple(_tiers(name, url, rates)) if rates is not None else ()
    source = f"{facts.source}, prices of {calculation.provider.id}"
    return replace(facts, rates=rates, cliffs=cliffs, tiers=tiers, source=source)


def _listed(names: tuple[str, ...], upstream: str) -> tuple[Any, str, str | None] | None:
    """The first listing at this upstream, else at whoever makes a model of that name."""
    for url in (upstream or None, None):
        for name in names:
            calculation = _look_up(name, url)
            if calculation is not None:
                return calculation, name, url
    return None


def _look_up(name: str, url: str | None, tier: str | None = None) -> Any | None:
    genai_prices = _price_list()
    if genai_prices is None:
        return None
    usage = genai_prices.Usage(input_tokens=1, output_tokens=1)
    context = {"service_tier": tier} if tier else None
    try:
        return genai_prices.calc_price(usage, name, provider_api_url=url, price_context=context)
    except (LookupError, ValueError):
        return None


def _tiers(name: str, url: str | None, standard: Rates) -> Iterator[ServiceTier]:
    for tier in SERVICE_TIERS:
        calculation = _look_up(name, url, tier)
        rates = _rates(calculation.model_price, 0) if calculation is not None else None
        if calculation is not None and rates is not None and rates != standard:
            yield ServiceTier(tier, rates, _cliffs(calculation.model_price))


def _cliffs(prices: Any) -> tuple[Cliff, ...]:
    """Where a listed price rises for the whole request."""
    starts = sorted(
        {tier.start for price in (prices.input_mtok, prices.output_mtok) for tier in getattr(price, "tiers", ())}
    )
    cliffs: list[Cliff] = []
    below = _rates(prices, 0)
    for start in starts:
        rates = _rates(prices, start + 1)
        if rates is None or below is None:
            continue
        if rates.input > below.input or rates.output > below.output:
            cliffs.append(Cliff(start, rates))
        below = rates
    return tuple(cliffs)


def _rates(prices: Any, input_tokens: int) -> Rates | None:
    base = _price_at(prices.input_mtok, input_tokens)
    if base is None:
        return None
    cached = _price_at(prices.cache_read_mtok, input_tokens)
    written = _price_at(prices.cache_write_mtok, input_tokens)
    output = _price_at(prices.output_mtok, input_tokens)
    return Rates(
        input=base,
        cached=base if cached is None else cached,
        written=base if written is None else written,
        output=0.0 if output is None else output,
    )


def _price_at(price: Any, input_tokens: int) -> float | None:
    if price is None:
        return None
    if not hasattr(price, "tiers"):
        return float(price)
    found = price.base
    for tier in price.tiers:
        if input_tokens > tier.start:
            found = tier.price
    return float(found)


# -- the operator's word -------------------------------------------------------------------------


def _overridden(facts: ModelFacts, override: Override) -> ModelFacts:
    if override.window is not None:
        facts = replace(facts, window=override.window, total_window=override.window, max_input=None)
    facts = _repriced(facts, override)
    if override.cliff is not None:
        facts = replace(facts, cliffs=_moved(facts, override.cliff))
    return facts


def _repriced(facts: ModelFacts, override: Override) -> ModelFacts:
    """Given prices replace the listed ones; what was not given keeps its ratio to the input price."""
    old = facts.rates
    given = (override.input_price, override.cached_price, override.write_price, override.output_price)
    if all(price is None for price in given):
        return facts
    base = override.input_price if override.input_price is not None else old.input if old else 0.0
    scale = base / old.input if old and old.input else 1.0
    cached = old.cached * scale if old else base
    written = old.written * scale if old else base
    output = old.output * scale if old else 0.0
    rates = Rates(
        input=base,
        cached=cached if override.cached_price is None else override.cached_price,
        written=written if override.write_price is None else override.write_price,
        output=output if override.output_price is None else override.output_price,
    )
    cliffs = tuple(replace(cliff, rates=_scaled(cliff.rates, old, rates)) for cliff in facts.cliffs)
    return replace(facts, rates=rates, cliffs=cliffs, tiers=(), source=f"{facts.source}, prices of the operator")


def _scaled(beyond: Rates | None, old: Rates | None, new: Rates) -> Rates:
    """Prices beyond a cliff, raised over the new base prices as they were over the old ones."""
    if beyond is None or old is None:
        return _beyond(new)

    def raised(price: float, was: float, base: float) -> float:
        return base * (price / was if was else CLIFF_INPUT_FACTOR)

    return Rates(
        raised(beyond.input, old.input, new.input),
        raised(beyond.cached, old.cached, new.cached),
        raised(beyond.written, old.written, new.written),
        raised(beyond.output, old.output, new.output),
    )


def _moved(facts: ModelFacts, above: int) -> tuple[Cliff, ...]:
    """The first cliff where the operator says it is; later ones stay."""
    if above <= 0:
        return ()
    first = facts.cliffs[0].rates if facts.cliffs else None
    if first is None and facts.rates is not None:
        first = _beyond(facts.rates)
    return (Cliff(above, first), *(cliff for cliff in facts.cliffs[1:] if cliff.above > above))


def _beyond(rates: Rates) -> Rates:
    return Rates(
        rates.input * CLIFF_INPUT_FACTOR,
        rates.cached * CLIFF_INPUT_FACTOR,
        rates.written * CLIFF_INPUT_FACTOR,
        rates.output * CLIFF_OUTPUT_FACTOR,
    )
