"""Passes a reply on while a reader sees a copy. Looks before it relays, finishes on every exit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from proxy.codings import STREAM_ERRORS, CodingError, Decoder, decoder
from proxy.core.headers import RawHeaders, header
from proxy.core.sse import is_filler
from proxy.errors import UpstreamError
from proxy.upstream import UpstreamResponse
from proxy.wire.base import NOWHERE, ExpandReader, ReplyReader, StreamPlace, WireFormat
from proxy.wire.errors import JSON_HEADERS, api_error

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# More than this of a reply that is not a stream is never held back.
HOLD_BYTES = 8 * 1024 * 1024
# More than this of an error body is never read for classification.
ERROR_BYTES = 1024 * 1024
# How long a stream may stay open after its terminal marker.
AFTER_DONE_S = 2.0
# The same where another round waits for it: then only the connection would be saved.
NEXT_ROUND_S = 0.05
# Answers that never have a body, whatever length they name: a 304 names that of what it did not send.
BODILESS = frozenset({204, 304})
HEARTBEAT = b": still waiting for the provider\n\n"


class Responder:
    """The client's side of one exchange. After the first byte an error can no longer be a new reply."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_started = False
        self.is_ended = False
        self.is_event_stream = False
        self.is_sending = False  # True as well after a send was cut off: what reached the client is not known

    async def start(self, status: int, headers: RawHeaders) -> None:
        self.is_started = True
        self.is_event_stream = "event-stream" in header(headers, b"content-type")
        if status in BODILESS:
            headers = [(name, value) for name, value in headers if name != b"content-length"]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, chunk: bytes) -> None:
        self.is_sending = True
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        self.is_sending = False

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
    `is_stream`: a success whose body is an event stream.
    """

    response: UpstreamResponse
    reader: ReplyReader
    decoder: Decoder
    is_stream: bool
    kept_coding: str = ""  # a Content-Encoding that stays with the body
    held: list[bytes] = field(default_factory=list)
    is_over: bool = False
    failure: UpstreamError | None = None
    error_body: bytes | None = None
    rounds: ExpandReader | None = None  # the reader, where the reply may go on in another round

    @property
    def wants_more(self) -> bool:
        """Did it end with calls of ours alone? Then nothing of its end is for the client."""
        return self.rounds is not None and self.rounds.wants_more

    @property
    def status(self) -> int:
        return self.response.status

    async def read(self) -> bytes:
        """The next bytes for the client; b"" at the end, then `is_over` or `failure` is set."""
        while True:
            try:
                chunk = await self.response.read()
                if not chunk:
                    self.response.finish()
                    if not (self.decoder.is_complete or self.reader.is_done):
                        raise UpstreamError("upstream's body breaks off inside its coding", kind="closed")
                    self.is_over = True
                    return self.reader.finish()
                out = self.reader.feed(self.decoder.feed(chunk))
            except UpstreamError as error:
                if self.reader.is_done:  # all was said: how the connection ends tells nothing more
                    self.is_over = True
                    return self.reader.finish()
                self.failure = error
                return b""
            except STREAM_ERRORS as error:
                self.failure = UpstreamError(f"upstream's body does not decode: {error}", kind="protocol")
                return b""
            if out:
                return out


def open_reply(response: UpstreamResponse, reader: ReplyReader, *, is_stream: bool) -> Opening:
    """Prepare to read `response`. A coding that nobody knows is left as it is: some servers name a charset there."""
    codings = header(response.headers, b"content-encoding")
    try:
        inner = decoder(codings)
    except CodingError:
        inner, kept = decoder(""), codings
    else:
        kept = ""
    return Opening(response=response, reader=reader, decoder=inner, is_stream=is_stream, kept_coding=kept)


async def look(
    opening: Opening,
    respond: Responder,
    on_wait: Callable[[], Awaitable[None]],
    *,
    hold_s: float,
    heartbeat_s: float = 0,
) -> None:
    """Read until it is known whether this reply is a success, holding everything back.

    Known means: the first content-bearing event of a stream, an error object, or the whole body.
    When `hold_s` passes first, `on_wait` is awaited once (it releases the response head) and the
    look goes on: events that bear no content may wait, a client's time-out may not. So comments
    and blank lines pass from then on, and `heartbeat_s` counts.
    """
    hold_until = asyncio.get_running_loop().time() + hold_s
    is_error = opening.status >= 400
    size = 0
    while True:
        try:
            async with _patience(opening, respond, hold_until, heartbeat_s):
                chunk = await opening.read()
        except TimeoutError:
            if respond.is_started:
                await respond.body(HEARTBEAT)
            else:
                await on_wait()
                await _pass_filler(opening, respond)
            continue
        if chunk:
            opening.held.append(chunk)
            size += len(chunk)
            if respond.is_started and len(opening.held) == 1 and not is_error:
                await _pass_filler(opening, respond)
        if opening.is_over or opening.failure is not None:
            break
        if is_error:
            if size > ERROR_BYTES:
                return
        elif opening.reader.error or (opening.is_stream and opening.reader.has_content) or size > HOLD_BYTES:
            return
    if is_error:
        opening.error_body = b"".join(opening.held)


def _patience(opening: Opening, respond: Responder, hold_until: float, heartbeat_s: float) -> asyncio.Timeout:
    """How long the next bytes may take before something is done for the client meanwhile."""
    if opening.status >= 400:
        return asyncio.timeout(None)
    if not respond.is_started:
        return asyncio.timeout_at(hold_until)
    return asyncio.timeout(heartbeat_s or None) if opening.is_stream else asyncio.timeout(None)


async def _pass_filler(opening: Opening, respond: Responder) -> None:
    held = b"".join(opening.held)
    if held and opening.reader.at_event_boundary | (not opening.is_stream) and is_filler(held):
        opening.held = []
        await respond.body(held)


async def relay(
    opening: Opening, respond: Responder, before_end: Callable[[], Awaitable[None]], *, heartbeat_s: float = 0
) -> None:
    """Send what was held and all that follows. `before_end` is awaited before the client can see the end.

    The last bytes (the terminal marker of a stream, the last of any other body) wait for it, so
    that a client which saw the end can rely on the record of it. With `heartbeat_s`, silence
    between the events of a stream is filled with comments.
    """
    pending = opening.held
    opening.held = []
    if not opening.is_stream:
        heartbeat_s = 0
    while not opening.is_over and opening.failure is None:
        is_done = opening.reader.is_done
        if is_done:
            await before_end()
        # Which bytes are the last of a body without a marker shows only when it is over.
        kept = pending[-1:] if not opening.is_stream else []
        if len(pending) > len(kept):
            await respond.body(b"".join(pending[: len(pending) - len(kept)]))
            pending = kept
        try:
            after_done_s = NEXT_ROUND_S if opening.wants_more else AFTER_DONE_S
            async with asyncio.timeout(after_done_s if is_done else heartbeat_s or None):
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
    if opening.failure is not None or opening.wants_more:
        if pending:
            await respond.body(b"".join(pending))
        return
    await respond.end(b"".join(pending))


async def end_late(respond: Responder, fmt: WireFormat, message: str, code: str, place: StreamPlace = NOWHERE) -> None:
    """An error behind a head that said success: an event of the stream, or the body that was awaited."""
    if respond.is_event_stream:
        await respond.end(fmt.error_event(message, code=code, place=place))
    else:
        await respond.end(fmt.error_body(message, code=code))


async def say_stopping(respond: Responder, fmt: WireFormat, opening: Opening | None) -> None:
    """The server stops while this exchange runs: tell the client as well as can still be done."""
    message = "the proxy was stopped while this reply was on its way"
    if not respond.is_started:
        await respond.full(503, JSON_HEADERS, api_error(message, code="stopping"))
        return
    is_between = opening is None or opening.reader.at_event_boundary
    if respond.is_event_stream and is_between and not (respond.is_sending or respond.is_ended):
        await end_late(respond, fmt, message, "stopping")
