"""From the words of the command line to a model that can be asked: its key, its prices, what may be spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from proxy.config import load_config
from proxy.config.loading import is_loopback
from proxy.core.pricing import ModelFacts, Rates
from proxy.errors import ConfigError
from proxy.evaluation.live.endpoint import Endpoint
from proxy.evaluation.live.purse import Ledger, Purse
from proxy.evaluation.live.series import Series
from proxy.prices import PriceBook

SPENT = "spent.txt"


def opened(
    url: str, model: str, *, key_env: str = "", repeats: int = 1, cost_limit: float | None = None, prices: str = "",
    folder: Path | None = None, environ: Mapping[str, str] | None = None,
) -> Series:  # fmt: skip
    """A series against that model. What `folder` says was spent before counts. Raises `ConfigError`."""
    if not model:
        raise ConfigError("which model is to be played live?", hint="Name it with --model, as the provider does.")
    config = load_config(None, {"upstream.url": url, "upstream.key_env": key_env}, environ)
    if key_env and not config.upstream.key:
        raise ConfigError(f"the environment variable {key_env} is empty", hint="Put the provider's key into it.")
    facts = _facts(url, model, prices)
    if facts.rates is None:
        raise ConfigError(
            f"no price is known for {model} at {url}, so no limit of cost can be kept",
            hint="Give its dollars per million tokens: --prices INPUT,CACHED,OUTPUT.",
        )
    purse = Purse(facts, cost_limit)
    if folder is not None:
        ledger = Ledger(folder / SPENT)
        purse.spent, purse.book = ledger.total(), ledger.add
    return Series(Endpoint(config.upstream.url, model, config.upstream.key), purse, repeats)


def _facts(url: str, model: str, prices: str) -> ModelFacts:
    """The given prices, else nothing for a model on this machine, else those of the product's price list."""
    facts = PriceBook(url).facts(model)
    if prices:
        return replace(facts, rates=_rates(prices), cliffs=(), tiers=())
    if is_loopback(urlsplit(url).hostname or ""):
        return replace(facts, rates=Rates(0.0, 0.0, 0.0, 0.0), cliffs=(), tiers=())
    return facts


def _rates(prices: str) -> Rates:
    try:
        given, cached, output = (float(word) for word in prices.split(","))
    except ValueError as error:
        raise ConfigError(f"{prices!r} are no prices", hint="Three numbers: INPUT,CACHED,OUTPUT.") from error
    if not all(0 <= price < float("inf") for price in (given, cached, output)):
        raise ConfigError(f"{prices!r} are no prices", hint="Dollars per million tokens, from 0.")
    return Rates(given, cached, given, output)
