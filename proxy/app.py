"""The ASGI application: routes requests to the parts, and runs the server. Built by `proxy.building`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import structlog

from proxy.admin import OWN_PATHS
from proxy.banner import banner
from proxy.building import Desk, Parts, build, policy_of, rules_of
from proxy.config import Config
from proxy.core.headers import FORWARDED, RawHeaders, header
from proxy.core.urls import join_upstream, split_scope
from proxy.errors import UndercliffError
from proxy.incoming import read_request
from proxy.link import BodyTooLargeError, ClientGoneError, ClientLink
from proxy.listening import Server, close, open_port
from proxy.logs import configure_logging
from proxy.originals import PREFIX as ORIGINALS
from proxy.passthrough import RawRequest, pass_through
from proxy.relay import Responder
from proxy.upstream import Upstream
from proxy.wire.errors import JSON_HEADERS, api_error

SETTLE_S = 3.0
"""Exchanges that the server cut off get so long to leave their rows to the store."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = structlog.get_logger()

GC_THRESHOLDS = (10_000, 20, 20)
"""A long list makes thousands of small objects a request, hardly any of them garbage."""


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

    def retire(self) -> None:
        """Say that no new work should come here."""
        if self._parts is not None:
            self._parts.admin.is_ready = False

    async def stop(self) -> None:
        """Let what still runs write its end, then close everything."""
        parts = self._parts
        if parts is None:
            return
        self.retire()
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
        if self._config.server.forwarded_allow_ips:
            headers = [(name, value) for name, value in headers if name.lower() not in FORWARDED]
        peer = (scope.get("client") or ("local", 0))[0]
        await parts.gate.refresh()
        caller = parts.gate.admit(headers, peer)
        if caller is None:
            await respond.full(401, JSON_HEADERS, api_error("no valid client key", code="invalid_api_key"))
            return
        desk = parts.desks[caller.team]
        query: str = scope["query_string"].decode("latin-1")
        request = RawRequest(
            method=method,
            path=path,
            url=join_upstream(desk.config.upstream.url, path, query),
            headers=caller.headers,
            tenant=caller.tenant,
            scope=name,
        )
        if (refusal := await desk.refusal(request, caller.team)) is not None:
            await respond.full(*refusal)
            return
        await _serve(desk, parts.upstream, request, ClientLink(receive), respond)


async def _pass(desk: Desk, upstream: Upstream, request: RawRequest, link: ClientLink, respond: Responder) -> None:
    """Relay what carries no conversation. Where not every model may be called, its body is read first."""
    body: bytes | None = None
    if desk.permits.models and request.method in ("POST", "PUT", "PATCH"):
        body, headers = await read_request(request.headers, link, desk.config.server.max_body_mb * 1024 * 1024)
        if await desk.permits.refuses(body, respond):
            return
        request = replace(request, headers=headers)
    await pass_through(request, link, respond, upstream, desk.exchanges.watch(request), body)


async def _serve(desk: Desk, upstream: Upstream, request: RawRequest, link: ClientLink, respond: Responder) -> None:
    """Run the exchange, and stop it when the client leaves.

    No task group: in Python 3.11 the group that it raises holds itself, and with it the body, until a collection.
    """
    fmt = desk.exchanges.format_of(request)
    watch = _cancel_when_gone(asyncio.current_task(), link, respond)
    leaving = asyncio.create_task(watch)  # noqa: TID251 - ended below, whatever happens
    try:
        if fmt is None:
            await _pass(desk, upstream, request, link, respond)
        else:
            await desk.exchanges.run(request, fmt, link, respond)
    except asyncio.CancelledError:
        if not leaving.done() or leaving.cancelled() or _is_cancelled_again():
            raise
    except ClientGoneError:
        pass
    except BodyTooLargeError:
        cap = desk.config.server.max_body_mb
        body = api_error(f"the request body is larger than {cap} MB (server.max_body_mb)", code="body_too_large")
        await respond.full(413, JSON_HEADERS, body)
    except Exception:  # the last door: an answer in the API's shape, never a dropped connection
        log.exception("request_failed", path=request.path)
        if not respond.is_started:
            body = api_error("the proxy failed on this request", code="internal_error")
            await respond.full(503, [*JSON_HEADERS, (b"retry-after", b"1")], body)
    finally:
        leaving.cancel()


async def _cancel_when_gone(serving: asyncio.Task[None] | None, link: ClientLink, respond: Responder) -> None:
    await link.gone()
    if serving is not None and not respond.is_ended:
        serving.cancel()


def _is_cancelled_again() -> bool:
    """Take back the cancelling that a client's leaving was; whether a server that stops cancelled as well."""
    task = asyncio.current_task()
    return task is not None and task.uncancel() > 0


def create_app(config: Config) -> App:
    """The application for a configuration, for any ASGI server."""
    return App(config)


def run(config: Config, *, on_ready: Callable[[int], None] | None = None) -> None:
    """Serve until told to stop. Prints the start-up block once the port is open. Raises `UndercliffError`."""
    configure_logging(config.log, secrets=config.secrets)
    for each in (config, *(team.config for team in config.teams.values() if team.config is not None)):
        policy_of(each), rules_of(each)  # what cannot work is said before anything is opened

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
