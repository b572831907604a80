"""Looking before relaying, over a scripted body: what is held, what passes, and what waits for the record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from proxy.errors import UpstreamError
from proxy.relay import HEARTBEAT, HOLD_BYTES, Opening, Responder, look, open_reply, relay, say_stopping
from proxy.upstream import UpstreamResponse
from proxy.wire.chat import ChatFormat
from tests.support import replies

SSE = [(b"content-type", b"text/event-stream")]
JSON = [(b"content-type", b"application/json")]
Part = bytes | Exception | asyncio.Event


class Body:
    """A reply whose body comes in the given parts; an event is waited for, an error is raised."""

    def __init__(self, parts: Sequence[Part], status: int = 200, headers: Any = SSE) -> None:
        self.parts = list(parts)
        self.status = status
        self.headers = headers
        self.is_finished = False

    async def read(self) -> bytes:
        while self.parts and isinstance(gate := self.parts[0], asyncio.Event):
            await gate.wait()
            self.parts.pop(0)
        part = self.parts.pop(0) if self.parts else b""
        if isinstance(part, Exception):
            raise part
        return cast(bytes, part)

    def finish(self) -> None:
        self.is_finished = True

    async def aclose(self) -> None:
        self.is_finished = True


class Client:
    """What the client has got so far."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.respond = Responder(self._send)

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.log.append(message["status"])
        else:
            self.log.append(message["body"])
            if not message["more_body"]:
                self.log.append("end")

    async def start(self) -> None:
        await self.respond.start(200, SSE)

    async def record(self) -> None:
        self.log.append("recorded")


async def opened(body: Body, *, is_stream: bool = True) -> Opening:
    reader = ChatFormat().reader(is_stream=is_stream, strip_usage=False)
    return open_reply(cast(UpstreamResponse, body), reader, is_stream=is_stream)


ROLE, TEXT, *_ = replies.chat_events("hello", with_usage=False)


async def test_everything_is_held_until_content_comes() -> None:
    client = Client()
    opening = await opened(Body([b": hi\n\n", ROLE, TEXT, replies.DONE]))
    await look(opening, client.respond, client.start, hold_s=5)
    assert opening.held == [b": hi\n\n", ROLE, TEXT] and client.log == []


async def test_after_the_wait_the_head_goes_comments_pass_and_events_stay() -> None:
    client, gates = Client(), [asyncio.Event(), asyncio.Event()]
    opening = await opened(Body([b": early\n\n", gates[0], b": late\n\n", ROLE, b": held\n\n", gates[1], TEXT]))
    async with asyncio.TaskGroup() as group:
        group.create_task(look(opening, client.respond, client.start, hold_s=0.01, heartbeat_s=0.03))
        await until(client, b": early\n\n", HEARTBEAT)
        gates[0].set()
        await until(client, b": late\n\n", HEARTBEAT)
        gates[1].set()
    assert client.log[0] == 200
    assert opening.held == [ROLE, b": held\n\n", TEXT]


async def until(client: Client, *wanted: bytes) -> None:
    """Until these were sent in this order, whatever stands between them."""
    async with asyncio.timeout(5):
        while True:
            rest = iter(client.log)
            if all(any(got == want for got in rest) for want in wanted):
                return
            await asyncio.sleep(0.005)


async def test_an_error_body_is_read_whole_however_long_it_takes() -> None:
    client, gate = Client(), asyncio.Event()
    opening = await opened(Body([b'{"err', gate, b'or":1}'], 400, JSON), is_stream=False)
    async with asyncio.TaskGroup() as group:
        group.create_task(look(opening, client.respond, client.start, hold_s=0.01))
        await asyncio.sleep(0.05)
        assert client.log == []
        gate.set()
    assert opening.error_body == b'{"error":1}'


async def test_the_marker_waits_for_the_record_and_for_nothing_else() -> None:
    client, gate = Client(), asyncio.Event()
    opening = await opened(Body([TEXT, replies.DONE, gate]))
    async with asyncio.TaskGroup() as group:
        group.create_task(relay(opening, client.respond, client.record))
        await until(client, replies.DONE)
        assert client.log == [TEXT, "recorded", replies.DONE]
        gate.set()
    assert client.log[-2:] == [b"", "end"]


async def test_the_last_of_a_long_body_waits_for_the_record() -> None:
    """Its length is known to the client: with the last byte it has seen the end."""
    client = Client()
    half = b" " * (HOLD_BYTES // 2 + 1)
    opening = await opened(Body([b"{", half, half, b'"a":1', b"}"], 200, JSON), is_stream=False)
    await look(opening, client.respond, client.start, hold_s=5)
    assert opening.held and not opening.is_over
    await relay(opening, client.respond, client.record)
    assert client.log[-3:] == ["recorded", b"}", "end"]
    assert b"".join(part for part in client.log if isinstance(part, bytes)) == b"{" + half + half + b'"a":1}'


async def test_a_cut_behind_the_marker_is_an_end() -> None:
    client = Client()
    opening = await opened(Body([TEXT, replies.DONE, UpstreamError("reset", kind="closed")]))
    await relay(opening, client.respond, client.record)
    assert opening.failure is None and client.log[-1] == "end"


async def test_a_cut_before_it_is_recorded_and_leaves_the_end_open() -> None:
    client = Client()
    opening = await opened(Body([TEXT, UpstreamError("reset", kind="closed")]))
    await relay(opening, client.respond, client.record)
    assert opening.failure is not None and "recorded" in client.log and "end" not in client.log


@pytest.mark.parametrize(
    ("parts", "is_sending", "is_told"), [([TEXT], False, True), ([TEXT[:-1]], False, False), ([TEXT], True, False)]
)
async def test_a_stop_is_told_between_events_only(parts: list[bytes], is_sending: bool, is_told: bool) -> None:
    client = Client()
    opening = await opened(Body(parts))
    await client.start()
    await opening.read()
    client.respond.is_sending = is_sending
    await say_stopping(client.respond, ChatFormat(), opening)
    assert (client.log[-1] == "end") == is_told


async def test_a_stop_before_the_head_is_a_status() -> None:
    client = Client()
    await say_stopping(client.respond, ChatFormat(), None)
    assert client.log[0] == 503 and client.log[-1] == "end"
