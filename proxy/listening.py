"""The port: opens it, speaks HTTP/1.1 on it within limits, starts and stops in good order. Knows no routes."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import time
from asyncio import TimerHandle, Transport
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import partial
from ipaddress import IPv4Network, ip_network
from types import FrameType
from typing import Any, Protocol

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy.config import ServerConfig
from proxy.errors import ConfigError
from proxy.wire.errors import api_error

MAX_HEAD_BYTES = 64 * 1024
"""A request line with all its headers. Without a limit one client could fill the memory with a head."""
LEAST_BODY_BYTES = 1024
"""A client must send so much of a body in `server.body_timeout_s`, else it holds a place for nothing."""
BACKLOG = 2048
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

Message = MutableMapping[str, Any]


class Application(Protocol):
    """What is served: started on the server's own event loop before the first request, stopped after the last.

    `retire` comes before the port is closed: whoever asks is told to send nothing new, and what comes is served.
    """

    async def start(self) -> None: ...

    def retire(self) -> None: ...

    async def stop(self) -> None: ...

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None: ...


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on heads and on slow clients, without trailers, and with refusals in the API's
    shape."""

    def __init__(self, *args: Any, head_s: float = 0, body_s: float = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = {"first": float(self.timeout_keep_alive), "head": head_s, "body": body_s}
        self._owed = ""  # what the client must send next, of these
        self._timer: TimerHandle | None = None
        self._body_bytes = 0  # since the timer was set
        self._is_in_body = False
        self._is_in_head = False
        self._head_bytes = 0  # of this request, trailers too
        self._silent_bytes = 0  # taken in by the parser without a word
        self._is_head_too_large = False
        self._is_offered = False  # another protocol, which is not taken up

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await("first")

    def connection_lost(self, exc: Exception | None) -> None:
        self._await("")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._silent_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("")
            return
        # Mostly a request comes in one piece, and no timer is ever set. Blank lines before one are part of its head.
        is_idle = self.cycle is None or self.cycle.response_complete
        self._await("body" if self._is_in_body else "head" if self._is_in_head or is_idle else "")
        # The parser keeps an unfinished line to itself, however long it grows.
        if self._silent_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._is_head_too_large = True
            self.send_400_response("")

    def _await(self, owed: str) -> None:
        """Set the time by which the client must have sent that; a wait that goes on keeps its time."""
        if owed != self._owed:
            self._owed, self._body_bytes = owed, 0
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if limit := self._limits.get(self._owed):
            self._timer = self.loop.call_later(limit, self._is_late)

    def _is_late(self) -> None:
        if self.transport.is_closing():
            return
        is_answering = self.cycle is not None and not self.cycle.response_complete
        # Reading rests while upstream takes no more: that is not the client's doing. An answer on its way goes first.
        is_excused = self.flow.read_paused or (is_answering and self._owed == "head")
        if is_excused or self._body_bytes >= LEAST_BODY_BYTES:
            self._body_bytes = 0
            self._set_timer()
        elif self._owed == "first" or (self.cycle is not None and not is_answering and self._owed == "body"):
            self.transport.close()  # nothing was asked, or it was answered already
        else:
            self._refuse(b"408 Request Timeout", api_error("the request came too slowly", code="request_timeout"))

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
            if not self._is_offered:
                return  # a WebSocket: refused, and the connection with it
            # The parser takes what follows such an offer for another protocol. It is the body, and HTTP/1.1 goes on.
            self._is_offered = False
            data = self._head_without_offer() + data
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _head_without_offer(self) -> bytes:
        lines = [b"%s %s HTTP/1.1" % (self.parser.get_method(), self.url)]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join(part for part in value.split(b",") if part.strip().lower() != b"upgrade")
            if name != b"upgrade":
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._head_bytes = self._silent_bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if self._is_in_head:
            super().on_header(name, value)
        # A trailer is no header: merged into them it could claim what nobody checked.

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._is_in_body = True
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("no tunnel")
        is_websocket = any(name == b"upgrade" and b"websocket" in value.lower() for name, value in self.headers)
        self._is_offered = self.parser.should_upgrade() and not is_websocket
        if not self._is_offered:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_body = False
        if not self._is_offered:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._silent_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def _count(self, size: int) -> None:
        self._silent_bytes = 0
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._is_head_too_large = True
            raise ValueError("head too large")  # ends the parsing, and so the connection

    def send_400_response(self, msg: str) -> None:
        if self._is_head_too_large:
            body = api_error(f"the request's head is larger than {MAX_HEAD_BYTES} bytes", code="headers_too_large")
            self._refuse(b"431 Request Header Fields Too Large", body)
        else:
            self._refuse(b"400 Bad Request", api_error("this is not valid HTTP/1.1", code="invalid_http"))

    def _refuse(self, status: bytes, body: bytes) -> None:
        """The last word on this connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            if self.cycle.response_started:
                self.transport.close()  # an answer is on its way: nothing may be mixed into it
                return
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d" % len(body)
        self.transport.write(b"HTTP/1.1 %s\r\n%s\r\n\r\n%s" % (status, head, body))
        self.transport.close()


def server_options(server: ServerConfig) -> dict[str, Any]:
    """How uvicorn has to run the application."""
    return {
        "http": partial(HttpProtocol, head_s=server.head_timeout_s, body_s=server.body_timeout_s),
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "date_header": False,
        "proxy_headers": bool(server.forwarded_allow_ips),
        "forwarded_allow_ips": [one for entry in server.forwarded_allow_ips for one in _both_ways(entry)],
        "timeout_keep_alive": int(server.keep_alive_s),
        "timeout_graceful_shutdown": max(1, int(server.shutdown_grace_s)),
    }


def _both_ways(entry: str) -> list[str]:
    """An address or network, and as it looks on a socket that serves IPv6 and IPv4."""
    network = ip_network(entry)
    if isinstance(network, IPv4Network):
        return [entry, f"::ffff:{network.network_address}/{96 + network.prefixlen}"]
    return [entry]


class Server(uvicorn.Server):
    """Starts the application, serves it on open sockets, and ends without an error when told to stop.

    Errors of `Application.start` come out of `run` as they are.
    """

    def __init__(self, app: Application, config: ServerConfig, on_ready: Callable[[int], None]) -> None:
        super().__init__(uvicorn.Config(app, **{**server_options(config), "lifespan": "off"}))
        self._app = app
        self._stalled_client_s = config.stalled_client_s
        self._drain_delay_s = config.drain_delay_s
        self._is_hurried = False
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.start()
        await super().startup(sockets)
        for listening in sockets or ():
            cut_stalled(listening.fileno(), self._stalled_client_s)
        self._on_ready(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._is_hurried = self.should_exit  # a second signal ends the wait for balancers
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.retire()
        retired = time.monotonic()
        # Looked at again and again: a signal's handler runs outside the loop, where no event may be set.
        while not self._is_hurried and time.monotonic() - retired < self._drain_delay_s:  # noqa: ASYNC110
            await asyncio.sleep(min(0.1, self._drain_delay_s))
        await super().shutdown(sockets)
        if not self.force_exit:
            await self._app.stop()
        # uvicorn would raise the signal again, and the process would seem to have been killed.
        self._captured_signals.clear()


def open_port(host: str, port: int) -> list[socket.socket]:
    """Listening sockets, one for each address of `host`. Raises `ConfigError`."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise _no_address(host) from error
    addresses = sorted({(family, address[:2]) for family, *_, address in found if isinstance(address[0], str)})
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            try:
                sockets.append(_listen(family, (address[0], port), is_dual=len(addresses) == 1))
            except OSError as error:
                # A name may stand for addresses of both kinds on a machine that has only one.
                if error.errno not in _ABSENT or (address == addresses[-1][1] and not sockets):
                    raise _cannot_listen(host, port, error) from error
            else:
                port = sockets[0].getsockname()[1]
    except ConfigError:
        close(sockets)
        raise
    return sockets


def close(sockets: Sequence[socket.socket]) -> None:
    """Close all; those that are closed already may be among them."""
    for each in sockets:
        each.close()


def _listen(family: int, address: tuple[Any, int], *, is_dual: bool) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _cannot_listen(host: str, port: int, error: OSError) -> ConfigError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"cannot listen on {place}: something listens there already",
            hint="Stop it, or choose another port with --port.",
        )
    if error.errno in _ABSENT:
        return _no_address(host)
    reason = (error.strerror or str(error)).lower()
    return ConfigError(f"cannot listen on {place}: {reason}", hint="Choose another port with --port, above 1023.")


def _no_address(host: str) -> ConfigError:
    return ConfigError(
        f"server.host = {host!r} is no address of this machine",
        hint="Use 127.0.0.1, ::1 or localhost for this machine.",
    )


def cut_stalled(listening: int, limit_s: float) -> None:
    """Let the system close links that are accepted on `listening` when the other side takes nothing for so long.

    Nothing above can: a link whose buffer is full is only ever closed once it has been emptied.
    """
    if limit_s and sys.platform == "linux":
        with socket.socket(fileno=os.dup(listening)) as twin:  # options belong to the socket, not to its handle
            twin.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limit_s * 1000))
