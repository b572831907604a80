"""The composition root: builds every part from the configuration and routes requests to them. Plain ASGI."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import structlog

from policies.contract import Policy
from policies.registry import PolicyError
from policies.registry import build as build_policy
from proxy.admin import OWN_PATHS, Admin
from proxy.auth import Gate, tenant_secret
from proxy.banner import banner, product_version
from proxy.capture import redacted
from proxy.compactor import Compactor, Counters
from proxy.compactor import options_of as compactor_options
from proxy.config import Config, UpstreamConfig
from proxy.core.headers import RawHeaders, header
from proxy.core.overflow_rules import DEFAULT, Rules
from proxy.core.records import Batch, LearnedRow
from proxy.core.urls import join_upstream, split_scope
from proxy.counting import InputCounter
from proxy.errors import ConfigError, StoreError, UndercliffError
from proxy.exchange import Exchanges, Services
from proxy.expander import Expander
from proxy.link import BodyTooLargeError, ClientGoneError, ClientLink
from proxy.listening import Server, close, open_port
from proxy.live import LiveBranches
from proxy.logs import configure_logging
from proxy.marks import MarkBook
from proxy.metrics import Meter
from proxy.models import ModelBook
from proxy.originals import PREFIX as ORIGINALS
from proxy.originals import Originals
from proxy.passthrough import RawRequest, pass_through
from proxy.prices import PriceBook
from proxy.readers import MAKERS, RENDER_KEEP
from proxy.relay import Responder
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
from proxy.web.app import Web, WebParts
from proxy.windows import WindowBuilder, WindowOptions
from proxy.wire.errors import JSON_HEADERS, api_error
from proxy.wire.registry import Registry

SETTLE_S = 3.0
"""Exchanges that the server cut off get so long to leave their rows to the store."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = structlog.get_logger()

GC_THRESHOLDS = (10_000, 20, 20)
"""A long list makes thousands of small objects a request, hardly any of them garbage."""


@dataclass(slots=True)
class Parts:
    """What lives as long as the server does."""

    store: Store
    upstream: Upstream
    gate: Gate
    exchanges: Exchanges
    admin: Admin
    web: Web
    originals: Originals


class App:
    """The ASGI application. Everything is built in the lifespan, on the server's own event loop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._parts: Parts | None = None
        self._running = 0
        self._is_idle = asyncio.Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http" and self._parts is not None:
            self._running += 1
            try:
                await self._http(self._parts, scope, receive, send)
            except asyncio.CancelledError:
                # Only a server that stops cancels here: the end is recorded, and the client was told if it could be.
                log.warning("request_cut_by_shutdown", path=scope["path"])
            finally:
                self._running -= 1
                if not self._running:
                    self._is_idle.set()

    async def _drain(self) -> None:
        """Wait for what still runs when the server's grace is over: it is being cancelled, and must write its end."""
        while self._running:
            self._is_idle.clear()
            await self._is_idle.wait()

    async def start(self) -> None:
        """Build everything. Raises `UndercliffError` when it cannot serve."""
        self._parts = await build(self._config)
        self._parts.admin.is_ready = True

    async def stop(self) -> None:
        """Let what still runs write its end, then close everything."""
        parts = self._parts
        if parts is None:
            return
        parts.admin.is_ready = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await self._drain()
        await parts.upstream.aclose()
        await parts.store.aclose()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """For servers that start and stop applications in ASGI's way."""
        await receive()
        try:
            await self.start()
        except UndercliffError as error:
            await send({"type": "lifespan.startup.failed", "message": f"{error}. {error.hint}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, parts: Parts, scope: Message, receive: Receive, send: Send) -> None:
        respond = Responder(send)
        method: str = scope["method"]
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        name, path = split_scope(raw_path.decode("latin-1"))
        headers: RawHeaders = list(scope["headers"])
        if path in OWN_PATHS:
            await parts.admin.answer(method, path, respond)
            return
        if path.startswith(ORIGINALS) and method in ("GET", "HEAD"):
            asked = scope["query_string"].decode("latin-1")
            await parts.originals.answer(path, asked, headers, (scope.get("client") or ("local", 0))[0], respond)
            return
        if path == "/ctx" or path.startswith("/ctx/"):
            await parts.web({**scope, "path": unquote(path)}, receive, send)
            return
        if "websocket" in header(headers, b"upgrade").lower():
            # Clients that try a WebSocket first fall back to HTTP at once when it is refused.
            body = api_error("WebSocket is not served here; use HTTP", code="upgrade_not_supported")
            await respond.full(426, [*JSON_HEADERS, (b"connection", b"close")], body)
            return
        peer = (scope.get("client") or ("local", 0))[0]
        caller = parts.gate.admit(headers, peer)
        if caller is None:
            await respond.full(401, JSON_HEADERS, api_error("no valid client key", code="invalid_api_key"))
            return
        query: str = scope["query_string"].decode("latin-1")
        request = RawRequest(
            method=method,
            path=path,
            url=join_upstream(self._config.upstream.url, path, query),
            headers=caller.headers,
            tenant=caller.tenant,
            scope=name,
        )
        await _serve(parts, request, ClientLink(receive), respond, self._config)


async def _serve(parts: Parts, request: RawRequest, link: ClientLink, respond: Responder, config: Config) -> None:
    """Run the exchange, and stop it when the client leaves."""
    exchanges = parts.exchanges
    fmt = exchanges.format_of(request)
    if config.upstream.is_managed and not config.upstream.key:
        message = f"the provider's key is missing: the environment variable {config.upstream.key_env} is empty"
        await respond.full(503, JSON_HEADERS, api_error(message, code="provider_key_missing"))
        return

    async def work() -> None:
        if fmt is None:
            await pass_through(request, link, respond, parts.upstream, exchanges.watch(request))
        else:
            await exchanges.run(request, fmt, link, respond)

    async def watch(task: asyncio.Task[None]) -> None:
        await link.gone()
        if not respond.is_ended:
            task.cancel()

    try:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work())
            watching = group.create_task(watch(working))
            working.add_done_callback(lambda _: watching.cancel())
    except* ClientGoneError:
        pass
    except* BodyTooLargeError:
        cap = config.server.max_body_mb
        body = api_error(f"the request body is larger than {cap} MB (server.max_body_mb)", code="body_too_large")
        await respond.full(413, JSON_HEADERS, body)
    except* Exception:  # the last door: an answer in the API's shape, never a dropped connection
        log.exception("request_failed", path=request.path)
        if not respond.is_started:
            body = api_error("the proxy failed on this request", code="internal_error")
            await respond.full(503, [*JSON_HEADERS, (b"retry-after", b"1")], body)


async def build(config: Config) -> Parts:
    """Open the store and connect the parts. Raises `StoreError` when a required store cannot be opened."""
    meter = Meter()
    async with contextlib.AsyncExitStack() as opened:  # closed again when a later part fails
        store = await _open_store(config, observers(config, meter))
        opened.push_async_callback(store.aclose)
        secret = tenant_secret(config.store)
        upstream = Upstream(_upstream_options(config.upstream))
        opened.push_async_callback(upstream.aclose)
        gate = Gate(
            client_keys=config.server.client_keys,
            is_managed=config.upstream.is_managed,
            provider_key=config.upstream.key,
            secret=secret,
            upstream=config.upstream.url,
        )
        counters = Counters() if config.compaction.summarizer != "digest" else None
        exchanges = await build_exchanges(config, store, upstream, counters)
        opened.pop_all()
    web = build_web(config, store, exchanges, meter)
    originals = Originals(store, gate, access_of(config))
    return Parts(
        store,
        upstream,
        gate,
        exchanges,
        Admin(store=store, version=product_version(), summaries=counters),
        web,
        originals,
    )


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
    return Web(WebParts(store, file, access_of(config), meter, limits_of, product_version()))


def access_of(config: Config) -> Access:
    """Who may see what was said."""
    is_private = is_loopback(config.server.host) and not config.server.client_keys
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
    config: Config, store: Store, upstream: Upstream, counters: Counters | None = None
) -> Exchanges:
    """Wire up what exchanges share. The vocabulary and the price table load in threads meanwhile."""
    tokenizer = Tokenizer()
    prices = PriceBook(config.upstream.url, config.model)
    await asyncio.gather(tokenizer.load(), prices.load())
    models = ModelBook(config, prices, await _learned(store))
    if (listen := getattr(store, "listen", None)) is not None:  # replicas learn from each other
        listen(models.recall)
    live = LiveBranches(store)
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
        Services(config, store, upstream, live, turns, models, formats, rules, chains, expander, compactor, counter)
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


def create_app(config: Config) -> App:
    """The application for a configuration, for any ASGI server."""
    return App(config)


def run(config: Config, *, on_ready: Callable[[int], None] | None = None) -> None:
    """Serve until told to stop. Prints the start-up block once the port is open. Raises `UndercliffError`."""
    configure_logging(config.log, secrets=config.secrets)
    policy_of(config), rules_of(config)  # what cannot work is said before anything is opened

    def show(port: int) -> None:
        sys.stdout.write(banner(config, port=port))
        sys.stdout.flush()

    def ready(port: int) -> None:
        # What start-up built stays; looking at it in every collection would cost a tenth of a long request.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        (on_ready or show)(port)

    sockets = open_port(config.server.host, config.server.port)
    try:
        Server(App(config), config.server, ready).run(sockets)
    finally:
        close(sockets)
