"""The scripted upstream must do what it claims, or the tests that lean on it prove nothing."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

from tests.support import builders, replies
from tests.support.signals import Gate
from tests.support.upstream import Action, Request, ScriptedUpstream


async def _raw(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def test_records_what_arrived() -> None:
    async with ScriptedUpstream(lambda _: replies.json_reply({"ok": True})) as up, httpx.AsyncClient() as client:
        url = f"{up.url}/v1/x?a=b%2Fc&a=2"
        first = await client.post(url, content=b"plain", headers=[("X-Two", "1"), ("X-Two", "2")])

        async def pieces():
            yield b"ab"
            yield b"cd"

        await client.post(url, content=pieces())
    assert first.json() == {"ok": True}
    one, two = up.requests
    assert (one.method, one.target, one.body) == ("POST", "/v1/x?a=b%2Fc&a=2", b"plain")
    assert one.header_list("x-two") == ["1", "2"]
    assert two.body == b"abcd" and two.is_chunked and two.connection == one.connection == 1
    assert up.bodies_read == 2


async def test_queue_goes_before_the_handler() -> None:
    def handler(request: Request) -> Action:
        return replies.json_reply({"echo": request.body.decode()})

    async with ScriptedUpstream(handler) as up, httpx.AsyncClient() as client:
        up.enqueue(replies.error_reply(429, "slow down", headers=[("retry-after", "7")]))
        first = await client.post(up.url, content=b"1")
        second = await client.post(up.url, content=b"2")
    assert first.status_code == 429 and first.headers["retry-after"] == "7"
    assert second.json() == {"echo": "2"}


async def test_a_gate_holds_the_stream_until_it_is_opened() -> None:
    gate = Gate()
    answer = replies.stream_reply([b"data: one\n\n", gate, b"data: two\n\n"])
    async with (
        ScriptedUpstream(lambda _: answer) as up,
        httpx.AsyncClient() as client,
        client.stream("GET", up.url) as response,
    ):
        chunks = response.aiter_raw()
        assert await anext(chunks) == b"data: one\n\n"
        gate.open()
        assert await anext(chunks) == b"data: two\n\n"


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_framings(framing: replies.Framing) -> None:
    async with ScriptedUpstream(lambda _: replies.json_reply([1], framing=framing)) as up, httpx.AsyncClient() as c:
        for _ in range(2):
            assert (await c.get(up.url)).json() == [1]
        assert len(up.connections) == (2 if framing == "close" else 1)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
async def test_codings(coding: str) -> None:
    answer = replies.compressed_reply(b'{"a":1}', coding)
    async with ScriptedUpstream(lambda _: answer) as up, httpx.AsyncClient() as client:
        assert (await client.get(up.url)).json() == {"a": 1}


async def test_reset_and_fin_differ() -> None:
    async with ScriptedUpstream() as up:
        up.enqueue(replies.cut_stream([b"data: {"], reset=True), replies.cut_stream([b"data: {"], reset=False))
        seen = []
        for _ in range(2):
            reader, writer = await _raw(up.port)
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            try:
                seen.append((await reader.read(-1))[-10:])
            except ConnectionResetError:
                seen.append(b"reset")
            writer.close()
    assert seen == [b"reset", b"\ndata: {\r\n"]


async def test_early_close_and_idle_close() -> None:
    async with ScriptedUpstream(idle_close_s=0.01) as up:
        up.enqueue(replies.json_reply(1), replies.close_without_a_byte())
        reader, writer = await _raw(up.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await reader.read(-1)).endswith(b"\r\n\r\n1")  # kept, then closed for idleness
        writer.close()
        reader, writer = await _raw(up.port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi")
        assert await reader.read(-1) == b""
        writer.close()
    assert up.bodies_read == 2


async def test_a_client_that_leaves_is_seen_at_once() -> None:
    async with ScriptedUpstream(lambda _: replies.head_then_silence()) as up:
        _, writer = await _raw(up.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await up.wait_requests(1)
        assert up.closed.value == 0
        writer.close()
        await up.wait_closed(1)
        assert up.connections[0].is_closed_by_client


async def test_one_byte_per_write_arrives_whole() -> None:
    events = b"".join(replies.chat_events("grüße 🌊"))
    answer = replies.stream_reply(replies.bytewise(events))
    async with ScriptedUpstream(lambda _: answer) as up, httpx.AsyncClient() as client:
        assert (await client.get(up.url)).content == events


def test_from_a_thread_for_sync_clients() -> None:
    with ScriptedUpstream(lambda _: replies.json_reply(replies.completion("hi"))) as up:
        body = builders.body_bytes(builders.request([builders.user("hello")]))
        reply = httpx.post(f"{up.base_url}/chat/completions", content=body)
        assert reply.json()["choices"][0]["message"]["content"] == "hi"
        up.received.wait_sync(1)


def test_a_broken_handler_fails_the_test() -> None:
    up = ScriptedUpstream(lambda request: request.json()["missing"])

    def run() -> None:
        with up, socket.create_connection(("127.0.0.1", up.port)) as sock:
            sock.sendall(b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
            assert sock.recv(10) == b""

    with pytest.raises(KeyError):
        run()


def test_no_answer_is_an_answer_nobody_mistakes() -> None:
    with ScriptedUpstream() as up:
        assert httpx.get(up.url).status_code == 599


def test_builders() -> None:
    first, second = builders.step(3, "text")
    assert first["tool_calls"][0]["id"] == second["tool_call_id"]
    assert len(builders.long_text(1, 777)) == 777 and builders.long_text(1) != builders.long_text(2)
    assert b'"stream":true' in builders.body_bytes(builders.request([], stream=True))
