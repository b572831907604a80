"""Passes a reply on while a reader sees a copy. Looks before it relays, finishes on every exit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from proxy.codings import STREAM_ERRORS, CodingError, Decoder, decoder
from proxy.core.headers import RawHeaders, header
from proxy.errors import UpstreamError
from proxy.upstream import UpstreamResponse
from proxy.wire.base import ReplyReader

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# More than this of a reply that is not a stream is never held back.
HOLD_BYTES = 8 * 1024 * 1024
# More than this of an error body is never read for classification.
ERROR_BYTES = 1024 * 1024
# How long a stream may stay open after its terminal marker.
AFTER_DONE_S = 2.0
HEARTBEAT = b": still waiting for the provider\n\n"


class Responder:
    """The client's side of one exchange. After the first byte an error can no longer be a new reply."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_started = False
        self.is_ended = False

    async def start(self, status: int, headers: RawHeaders) -> None:
        self.is_started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        self.is_ended = True
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def full(self, status: int, headers: RawHeaders, body: bytes) -> None:
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        await self.end(body)


@dataclass(slots=True)
class Opening:
    """A reply as far as it was read before anything of it reached the client.

    `held` are the bytes read so far, ready to pass on. `is_over` when the body has ended;
    `failure` when it broke off. An error status has its whole body in `error_body`.
    """

    response: UpstreamResponse
    reader: ReplyReader
    decoder: Decoder
    held: list[bytes] = field(default_factory=list)
    is_over: bool = False
    failure: UpstreamError | None = None
    error_body: bytes | None = None

    @property
    def status(self) -> int:
        return self.response.status

    async def read(self) -> bytes:
        """The next bytes for the client; b"" at the end, then `is_over` or `failure` is set."""
        while True:
            try:
                chunk = await self.response.read()
                if not chunk:
                    self.is_over = True
                    self.response.finish()
                    return self.reader.finish()
                out = self.reader.feed(self.decoder.feed(chunk))
            except UpstreamError as error:
                self.failure = error
                return b""
            except STREAM_ERRORS as error:
                self.failure = UpstreamError(f"upstream's body does not decode: {error}", kind="protocol")
                return b""
            if out:
                return out


async def open_reply(response: UpstreamResponse, reader: ReplyReader) -> Opening:
    """Prepare to read `response`. Raises `UpstreamError` for a coding that nobody asked for."""
    try:
        inner = decoder(header(response.headers, b"content-encoding"))
    except CodingError as error:
        await response.aclose()
        raise UpstreamError(str(error), kind="protocol") from error
    return Opening(response=response, reader=reader, decoder=inner)


async def look(opening: Opening, *, is_stream: bool, on_wait: Callable[[], Awaitable[None]], hold_s: float) -> None:
    """Read until it is known whether this reply is a success, holding everything back.

    Known means: the first content-bearing event of a stream, an error object, or the whole body.
    When `hold_s` passes first, `on_wait` is awaited once (it releases the response head) and the
    look goes on: events that bear no content may wait, a client's time-out may not.
    """
    loop = asyncio.get_running_loop()
    deadline: float | None = loop.time() + hold_s
    is_error = opening.status >= 400
    size = 0
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await opening.read()
        except TimeoutError:
            deadline = None
            if not is_error:
                await on_wait()
            continue
        if chunk:
            opening.held.append(chunk)
            size += len(chunk)
        if opening.is_over or opening.failure is not None:
            break
        if is_error:
            if size > ERROR_BYTES:
                return
        elif opening.reader.error or (is_stream and opening.reader.has_content) or size > HOLD_BYTES:
            return
    if is_error:
        opening.error_body = b"".join(opening.held)


async def relay(
    opening: Opening, respond: Responder, before_end: Callable[[], Awaitable[None]], *, heartbeat_s: float = 0
) -> None:
    """Send what was held and all that follows. `before_end` is awaited before the client can see the end.

    The last bytes (the terminal marker of a stream, the whole of a held body) wait for it, so that
    a client which saw the end can rely on the record of it. With `heartbeat_s`, silence between
    the events of a stream is filled with comments.
    """
    pending = opening.held
    opening.held = []
    while not opening.is_over and opening.failure is None:
        if pending and not opening.reader.is_done:
            await respond.body(b"".join(pending))
            pending = []
        is_done = opening.reader.is_done
        try:
            async with asyncio.timeout(AFTER_DONE_S if is_done else heartbeat_s or None):
                chunk = await opening.read()
        except TimeoutError:
            if is_done:
                break  # the stream said that it is done, only the connection was left open
            if opening.reader.at_event_boundary:
                await respond.body(HEARTBEAT)
            continue
        if chunk:
            pending.append(chunk)
    await before_end()
    if opening.failure is not None:
        if pending:
            await respond.body(b"".join(pending))
        return
    await respond.end(b"".join(pending))
