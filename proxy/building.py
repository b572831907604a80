"""The composition root: builds every part from the configuration, and a desk for each team."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from policies.contract import Policy
from policies.registry import PolicyError
from policies.registry import build as build_policy
from proxy.admin import Admin
from proxy.allowance import Allowance
from proxy.auth import Door, Gate, tenant_secret
from proxy.banner import product_version
from proxy.capture import redacted
from proxy.compactor import Compactor, Counters
from proxy.compactor import options_of as compactor_options
from proxy.config import Config, UpstreamConfig
from proxy.core.headers import RawHeaders
from proxy.core.overflow_rules import DEFAULT, Rules
from proxy.core.records import Batch, LearnedRow
from proxy.counting import InputCounter
from proxy.errors import ConfigError, StoreError
from proxy.exchange import Exchanges, Services
from proxy.expander import Expander
from proxy.live import LiveBranches
from proxy.marks import MarkBook
from proxy.metrics import Meter
from proxy.models import ModelBook
from proxy.originals import Originals
from proxy.passthrough import RawRequest
from proxy.permits import ALL, Permits
from proxy.prices import PriceBook
from proxy.readers import MAKERS, RENDER_KEEP
from proxy.roster import Roster, tenant_of
from proxy.spans import Spans
from proxy.store.base import Store
from proxy.store.null import NullStore
from proxy.store.open import file_of, open_store
from proxy.summaries.book import SummaryBook
from proxy.summaries.registry import build as build_summarizer
from proxy.takeover import Chains
from proxy.tokenizer import Tokenizer
from proxy.turn import Turns
from proxy.upstream import Upstream, UpstreamOptions
from proxy.web.access import Access, is_loopback
from proxy.windows import WindowBuilder, WindowOptions
from proxy.wire.errors import JSON_HEADERS, api_error
from proxy.wire.registry import Registry

if TYPE_CHECKING:
    from proxy.web.app import Web

MEMORY = 256 * 1024 * 1024
"""Bytes for each of two things that are kept of live branches; the store has the rest."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Desk:
    """Where a team's requests are answered: its settings, its models and its limits."""

    config: Config
    exchanges: Exchanges
    permits: Permits = ALL
    allowance: Allowance | None = None

    async def refusal(self, request: RawRequest, team: str) -> tuple[int, RawHeaders, bytes] | None:
        """What stands against every request now, before its body is read; None for nothing."""
        upstream = self.config.upstream
        if upstream.is_managed and not upstream.key:
            message = f"the provider's key is missing: the environment variable {upstream.key_env} is empty"
            return 503, JSON_HEADERS, api_error(message, code="provider_key_missing")
        over = await self.allowance.take() if self.allowance is not None and request.method == "POST" else None
        if over is None:
            return None
        # SDKs try a 429 again by themselves; what ends with the day is not worth that.
        headers = [(b"retry-after", str(over.wait_s).encode()), (b"x-should-retry", b"false")]
        return 429, [*JSON_HEADERS, *headers], api_error(over.message(team), code="team_limit_reached")


@dataclass(slots=True)
class Parts:
    """What lives as long as the server does."""

    store: Store
    upstream: Upstream
    gate: Door
    desks: dict[str, Desk]  # by team; "" where there are none
    admin: Admin
    web: LateWeb
    originals: Originals


async def build(config: Config) -> Parts:
    """Open the store and connect the parts. Raises `StoreError` when a required store cannot be opened."""
    meter = Meter()
    async with contextlib.AsyncExitStack() as opened:  # closed again when a later part fails
        store = await _open_store(config, observers(config, meter))
        opened.push_async_callback(store.aclose)
        secret = tenant_secret(config.store)
        upstream = Upstream(_upstream_options(config.upstream))
        opened.push_async_callback(upstream.aclose)
        gate = build_gate(config, store, secret)
        counters = Counters() if config.compaction.summarizer != "digest" else None
        desks = await build_desks(config, store, upstream, counters)
        opened.pop_all()
    web = LateWeb(partial(build_web, config, store, next(iter(desks.values())).exchanges, meter))
    originals = Originals(store, gate, access_of(config))
    return Parts(
        store,
        upstream,
        gate,
        desks,
        Admin(store=store, version=product_version(), summaries=counters),
        web,
        originals,
    )


def build_gate(config: Config, store: Store, secret: bytes) -> Door:
    """By teams where there are some, else by the keys of `[server]`."""
    if config.teams:
        return Roster(config.teams, store)
    return Gate(
        client_keys=config.server.client_keys,
        is_managed=config.upstream.is_managed,
        provider_key=config.upstream.key,
        secret=secret,
        upstream=config.upstream.url,
    )


async def build_desks(config: Config, store: Store, upstream: Upstream, counters: Counters | None) -> dict[str, Desk]:
    """One for each team, or a single one for everybody."""
    tokenizer = Tokenizer()
    await tokenizer.load()
    if not config.teams:
        return {"": Desk(config, await build_exchanges(config, store, upstream, tokenizer, counters))}
    desks: dict[str, Desk] = {}
    for name, team in config.teams.items():
        own = team.config or config
        permits = Permits(name, team.allowed_models)
        share = len(config.teams)
        exchanges = await build_exchanges(own, store, upstream, tokenizer, counters, permits=permits, share=share)
        desks[name] = Desk(own, exchanges, permits, Allowance(team, tenant_of(name), store))
    return desks


class LateWeb:
    """The page, loaded when somebody first asks for it: most processes never show it."""

    def __init__(self, make: Callable[[], Web]) -> None:
        self._make = make
        self._web: Web | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if self._web is None:
            self._web = await asyncio.to_thread(self._make)
        await self._web(scope, receive, send)


def build_web(config: Config, store: Store, exchanges: Exchanges, meter: Meter) -> Web:
    """The page. Private is a server that only its own machine reaches, and that knows no other callers."""

    def limits_of(model: str) -> dict[str, int | None]:
        limits = exchanges.models.limits(model)
        return {
            "cliff": limits.facts.cliff,
            "window": limits.facts.window,
            "compact_at": limits.thresholds.compact_at,
            "guard": limits.thresholds.guard,
        }

    url = config.store.url
    file = (file_of(url) or url) if config.store.enabled and not isinstance(store, NullStore) else None
    app = importlib.import_module("proxy.web.app")
    web: Web = app.Web(app.WebParts(store, file, access_of(config), meter, limits_of, product_version()))
    return web


def access_of(config: Config) -> Access:
    """Who may see what was said."""
    is_private = is_loopback(config.server.host) and not (config.server.client_keys or config.teams)
    return Access(config.server.admin_key, is_private)


def observers(config: Config, meter: Meter) -> Callable[[Batch], None]:
    """What sees every batch on its way to the store."""
    if not config.log.otel:
        return meter.observe
    spans = Spans()

    def observe(batch: Batch) -> None:
        meter.observe(batch)
        spans.observe(batch)

    return observe


def _upstream_options(upstream: UpstreamConfig) -> UpstreamOptions:
    return UpstreamOptions(
        connect_timeout_s=upstream.connect_timeout_s,
        read_timeout_s=upstream.read_timeout_s,
        keepalive_s=upstream.keepalive_s,
        max_connections=upstream.max_connections,
        trust_env=upstream.trust_env,
        verify_tls=upstream.verify_tls,
    )


async def build_exchanges(
    config: Config,
    store: Store,
    upstream: Upstream,
    tokenizer: Tokenizer,
    counters: Counters | None = None,
    *,
    permits: Permits = ALL,
    share: int = 1,
) -> Exchanges:
    """Wire up what exchanges share. `share`: so many of them share this process's memory."""
    prices = PriceBook(config.upstream.url, config.model)
    await prices.load()
    models = ModelBook(config, prices, await _learned(store))
    if (listen := getattr(store, "listen", None)) is not None:  # replicas learn from each other
        listen(models.recall)
    live = LiveBranches(store, max_bytes=MEMORY // share, max_prior_bytes=MEMORY // share)
    window = config.window
    options = WindowOptions(window.mask_chars, tuple(window.never_mask))
    builder = WindowBuilder(policy_of(config), tokenizer, options, makers=MAKERS, render_keep=RENDER_KEEP)
    summarizer = build_summarizer(config, upstream, models.limits) if config.store.enabled else None
    book = SummaryBook(store, summarizer, wait_s=config.compaction.wait_s) if summarizer is not None else None
    turns = Turns(
        live,
        builder,
        models,
        tokenizer,
        asks_usage=config.upstream.ask_usage,
        target_share=window.target_share,
        margin_share=window.margin_share,
        has_kept_compacted=config.responses.compact_threshold,
        expand=config.expand if config.store.enabled else None,
        book=book,
        marks=MarkBook(store),
    )
    compactor = None
    if summarizer is not None and book is not None:
        compactor = Compactor(summarizer, book, store, turns, compactor_options(config), counters=counters)
    expander = Expander(store, tokenizer, config.expand)
    chains = Chains(store, is_on=config.responses.takeover == "safe")
    rules, formats = rules_of(config), Registry()
    counter = InputCounter(upstream) if config.responses.count_input else None
    return Exchanges(
        Services(
            config, store, upstream, live, turns, models, formats, rules, chains, expander, compactor, counter, permits
        )
    )


async def _learned(store: Store) -> list[LearnedRow]:
    """What was learned; nothing yet where the database is away and only its spool is open."""
    try:
        return await store.learned()
    except StoreError as error:
        log.warning("store_away", error=str(error), hint=error.hint)
        return []


def policy_of(config: Config) -> Policy:
    """The configured policy. Raises `ConfigError` for an unknown name or option."""
    try:
        return build_policy(config.policy.name, config.policy.options)
    except PolicyError as error:
        raise ConfigError(
            f"policy.name = {config.policy.name!r}: {error}", hint="See [policy] in the config."
        ) from error


def rules_of(config: Config) -> Rules:
    """The overflow rules with the operator's own. Raises `ConfigError` for a pattern that cannot work."""
    try:
        return DEFAULT.extended(patterns=config.overflow.patterns, vetoes=config.overflow.vetoes)
    except ValueError as error:
        raise ConfigError(str(error), hint="See [overflow] in the config.") from error


async def _open_store(config: Config, on_batch: Callable[[Batch], None]) -> Store:
    if not config.store.enabled:
        return NullStore(on_batch=on_batch)
    store = open_store(
        config.store.url,
        synchronous=config.store.synchronous,
        queue_mb=config.store.queue_mb,
        on_batch=on_batch,
        prepare=redacted if config.store.redact else None,
        secret_file=Path(config.store.secret_file),
        spool=Path(config.store.spool),
        spool_mb=config.store.spool_mb,
    )
    try:
        await store.open()
    except StoreError as error:
        if config.store.required:
            raise
        log.warning("store_unavailable", error=str(error), hint=error.hint)
        return NullStore(on_batch=on_batch)
    return store
