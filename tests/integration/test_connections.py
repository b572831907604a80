"""Who closes when: clients that leave, upstreams that close, idle links, slow readers, and a server told to stop."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.config import load_config
from tests.support import builders, replies
from tests.support.records import Records, eventually
from tests.support.replies import DONE, chunk, event, stream_reply
from tests.support.serve import Served, served, served_process
from tests.support.signals import Counter, Gate
from tests.support.stores import Stores, stores
from tests.support.upstream import Action, Hang, Request, ScriptedUpstream

NUMBERS = count(1)

__all__ = ["stores"]  # the fixture


def body_of(*, stream: bool = True, **extra: Any) -> dict[str, Any]:
    """A request of a conversation of its own."""
    return builders.request([builders.user(f"talk {next(NUMBERS)}")], stream=stream, **extra)


def content(text: str) -> bytes:
    return event(chunk({"content": text}))


def raw_request(body: dict[str, Any]) -> bytes:
    data = builders.body_bytes(body)
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(data), data)


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url) as running:
        yield running


# -- the client leaves -------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("has_head", [True, False])
def test_conn_01_the_client_leaves_while_upstream_thinks(
    up: ScriptedUpstream, proxy: Served, stream: bool, has_head: bool
) -> None:
    before, known = up.closed.value, up.bodies_read
    up.enqueue(stream_reply([Hang()]) if has_head else Action((Hang(),)))
    body = body_of(stream=stream)
    with socket.create_connection(("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))) as client:
        client.sendall(raw_request(body))
        up.received.wait_sync(known + 1)
    up.closed.wait_sync(before + 1, timeout_s=2)
    outcome = eventually(lambda: outcome_of(proxy, body))
    assert (outcome.outcome, outcome.status) == ("cancelled", 499)


def outcome_of(proxy: Any, body: dict[str, Any]) -> Any:
    """The last outcome of the conversation that this request opened; None while there is none."""
    records = Records(proxy.db)
    text = body["messages"][0]["content"]
    for conversation in records.conversations():
        if text in records.texts(conversation):
            return (records.outcomes(conversation) or [None])[-1]
    return None


async def test_conn_02_a_hundred_clients_leave_in_the_middle() -> None:
    """Each time upstream is closed, and what was said is stored with an estimate of its bill."""
    rounds, left = 100, Gate()
    answer = stream_reply([content("half a "), content("word"), left, content("never"), DONE])
    async with ScriptedUpstream(lambda _: answer) as up:
        with served(up.base_url) as proxy:
            bodies = [body_of() for _ in range(rounds)]
            async with httpx.AsyncClient(timeout=20) as client:

                async def drop(body: dict[str, Any]) -> None:
                    url = f"{proxy.base_url}/chat/completions"
                    async with client.stream("POST", url, json=body) as response:
                        got = b""
                        async for data in response.aiter_raw():
                            got += data
                            if b"word" in got:
                                return

                for start in range(0, rounds, 25):
                    await asyncio.gather(*(drop(body) for body in bodies[start : start + 25]))
            await up.wait_closed(rounds, timeout_s=5)
            assert not left.is_open
            records = Records(proxy.db)
            done = await asyncio.to_thread(eventually, lambda: all_outcomes(records, rounds))
            assert {outcome.outcome for outcome in done} == {"cancelled"}
            assert all(outcome.is_estimated and outcome.input > 0 and outcome.output > 0 for outcome in done)
            for conversation in records.conversations():
                assert records.texts(conversation)[-1] == "half a word"
            # Nothing is left over: all is free for the next one.
            up.enqueue(replies.chat_stream("fresh"))
            reply = await asyncio.to_thread(httpx.post, f"{proxy.base_url}/chat/completions", json=body_of())
            assert reply.status_code == 200
            assert sum(c.closed_at is None for c in up.connections) <= 1


def all_outcomes(records: Records, expected: int) -> list[Any] | None:
    found = [outcome for c in records.conversations() for outcome in records.outcomes(c)]
    return found if len(found) == expected else None


async def test_conn_04_the_pool_survives_five_hundred_cancelled_requests() -> None:
    """Ten places, and clients that leave at random moments, some while they wait for a place or a connection."""
    chance = random.Random(4)

    async def handler(request: Request) -> Action:
        if b"normal" in request.body:
            return replies.chat_stream("served")
        await asyncio.sleep(chance.uniform(0, 0.05))
        return stream_reply([content("a"), 0.02, content("b"), DONE])

    async with ScriptedUpstream(handler) as up:
        with served(up.base_url, upstream__max_connections=10) as proxy:
            port = int(proxy.url.rsplit(":", 1)[1])

            async def cancelled() -> None:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(raw_request(body_of()))
                await asyncio.sleep(chance.uniform(0, 0.05))
                writer.close()

            for _ in range(10):
                await asyncio.gather(*(cancelled() for _ in range(50)))
            start = time.monotonic()
            body = builders.request([builders.user("normal")], stream=True)
            async with httpx.AsyncClient(timeout=5) as client:
                reply = await client.post(f"{proxy.base_url}/chat/completions", json=body)
            assert reply.status_code == 200 and reply.content.endswith(DONE)
            assert time.monotonic() - start < 2


def test_a_request_that_was_stopped_early_is_found_again_after_a_restart(tmp_path: Path) -> None:
    """Clients that leave before their request is recorded take no receipt with them."""
    db = tmp_path / "undercliff.db"
    messages = [builders.system(), builders.user("a long watch")]
    with ScriptedUpstream(lambda _: replies.chat_stream("aye")) as up:
        with served(up.base_url, db) as proxy:
            port = int(proxy.url.rsplit(":", 1)[1])
            for _ in range(10):
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(raw_request(builders.request(messages, stream=True)))
            url = f"{proxy.base_url}/chat/completions"
            first = httpx.post(url, json=builders.request(messages, stream=True), timeout=20)
        with served(up.base_url, db) as proxy:
            more = [*messages, builders.assistant("aye"), builders.user("and now?")]
            url = f"{proxy.base_url}/chat/completions"
            second = httpx.post(url, json=builders.request(more, stream=True), timeout=20)
    name = "x-undercliff-conversation"
    assert first.headers[name] == second.headers[name]


# -- upstream closes ---------------------------------------------------------------------------------


def test_conn_07_upstreams_idle_limit_never_costs_a_request() -> None:
    """Calls come just around the time when upstream closes idle connections: each is read once, none fails."""
    rounds, limit = 30, 0.05
    answer = replies.json_reply(replies.completion("x"))
    with (
        ScriptedUpstream(lambda _: answer, idle_close_s=limit) as up,
        served(up.base_url, upstream__keepalive_s=limit * 0.8) as proxy,
        httpx.Client(timeout=10) as client,
    ):
        for number in range(rounds):
            time.sleep(limit * (0.9 + 0.2 * number / rounds))
            reply = client.post(f"{proxy.base_url}/chat/completions", json=body_of(stream=False))
            assert reply.status_code == 200
        assert up.bodies_read == rounds
        # And it does reuse what is fresh.
        opened = len(up.connections)
        for _ in range(5):
            client.post(f"{proxy.base_url}/chat/completions", json=body_of(stream=False))
        assert len(up.connections) <= opened + 1


def test_conn_07_the_default_stays_below_common_limits(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("")
    assert load_config(config).upstream.keepalive_s < 5


@pytest.mark.parametrize("is_reused", [True, False])
@pytest.mark.parametrize("reset", [True, False])
def test_conn_08_a_request_that_was_read_is_never_sent_again(is_reused: bool, reset: bool) -> None:
    with ScriptedUpstream() as up, served(up.base_url) as proxy:
        url = f"{proxy.base_url}/chat/completions"
        if is_reused:
            up.enqueue(replies.json_reply(replies.completion("x")))
            httpx.post(url, json=body_of(stream=False), timeout=10)
        up.enqueue(replies.close_without_a_byte(reset=reset))
        body = body_of(stream=False)
        reply = httpx.post(url, json=body, timeout=10)
        assert reply.status_code == 502
        assert reply.json()["error"].keys() == {"message", "type", "param", "code"}
        assert up.bodies_read == 1 + is_reused
        assert len(up.connections) == 1
        assert outcome_of(proxy, body).outcome == "error"


# -- idle and slow clients -----------------------------------------------------------------------------


def test_conn_09_idle_client_links_stay_open_as_configured() -> None:
    answer = replies.json_reply(replies.completion("x"))
    with ScriptedUpstream(lambda _: answer) as up, served_process(up.base_url, server__keep_alive_s=1) as proxy:
        data = raw_request(body_of(stream=False))
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
            for pause in (0.0, 0.6):
                time.sleep(pause)
                client.sendall(data)
                got = b""
                while not got.endswith(b"}}}"):
                    got += client.recv(65536)
                assert got.startswith(b"HTTP/1.1 200")
            assert client.recv(65536) == b""  # closed once it has been idle for so long


def test_conn_09_the_default_is_long_enough(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("")
    assert load_config(config).server.keep_alive_s >= 75


def test_perf_02_a_client_that_reads_nothing_stops_upstream() -> None:
    """150 MB are on offer: they stay with upstream, and the client is cut after a limit."""
    piece = content("x" * (1 << 20))
    offer = stream_reply([piece] * 150)
    with ScriptedUpstream(lambda _: offer) as up, served_process(up.base_url, server__stalled_client_s=2) as proxy:
        assert proxy.process is not None
        httpx.get(f"{proxy.url}/ctx/health")
        before = resident_bytes(proxy.process.pid)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.connect(("127.0.0.1", proxy.port))
            body = body_of()
            client.sendall(raw_request(body))
            up.received.wait_sync(1)
            peak = 0
            end = time.monotonic() + 1
            while time.monotonic() < end:
                peak = max(peak, resident_bytes(proxy.process.pid))
                time.sleep(0.05)
            assert up.answered.value == 0  # upstream is still being held up
            assert peak - before < 20 << 20
            up.closed.wait_sync(1, timeout_s=10)
        outcome = eventually(lambda: outcome_of(proxy, body))
        assert outcome.outcome == "cancelled"


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


# -- the server is told to stop --------------------------------------------------------------------------


async def test_conn_11_term_while_streams_run(stores: Stores) -> None:
    """One reply ends within the grace, an endless one and a silent one are cut; every row is on disk."""
    started, gate = Counter(), Gate()
    plain = 200

    def handler(request: Request) -> Action:
        if b"plain" in request.body:
            return replies.json_reply(replies.completion("noted"))
        started.add()
        if b"finite" in request.body:
            return stream_reply([content("nearly "), gate, content("done"), DONE])
        if b"silent" in request.body:
            return stream_reply([content("nearly "), Hang()])
        return stream_reply([part for n in range(10_000) for part in (content(f"{n} "), 0.01)])

    async with ScriptedUpstream(handler) as up:
        place = stores.place("a")
        with served_process(up.base_url, server__shutdown_grace_s=1, store__url=place) as proxy:
            url = f"{proxy.base_url}/chat/completions"
            assert proxy.process is not None
            async with httpx.AsyncClient(timeout=30) as client:

                async def stream(text: str) -> bytes:
                    body = builders.request([builders.user(text)], stream=True)
                    got = b""
                    async with client.stream("POST", url, json=body) as response:
                        async for data in response.aiter_raw():
                            got += data
                    return got

                streams = [asyncio.ensure_future(stream(text)) for text in ("finite", "silent", "endless")]
                await started.wait(3)
                ask = [builders.request([builders.user(f"plain {n}")]) for n in range(plain)]
                for start in range(0, plain, 50):
                    answers = await asyncio.gather(*(client.post(url, json=one) for one in ask[start : start + 50]))
                    assert {answer.status_code for answer in answers} == {200}
                begun = time.monotonic()
                proxy.process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.3)
                gate.open()
                finite, silent, cut = await asyncio.gather(*streams)
                await asyncio.to_thread(proxy.process.wait, 15)
            assert time.monotonic() - begun < 1 + 4
            assert finite.endswith(DONE)
            for got in (silent, cut):
                error = json.loads(got.split(b"\n\n")[-2].removeprefix(b"data: "))["error"]
                assert error["code"] == "stopping" and DONE not in got
            outcomes = dict(stored(Records(place)))
            assert outcomes["finite"].outcome == "ok"
            for text in ("silent", "endless"):
                assert outcomes[text].outcome == "interrupted" and outcomes[text].output > 0
            assert len([text for text in outcomes if text.startswith("plain")]) == plain
            assert all(outcomes[text].outcome == "ok" for text in outcomes if text.startswith("plain"))
            assert "Traceback" not in proxy.log


def stored(records: Records) -> Iterator[tuple[str, Any]]:
    for conversation in records.conversations():
        yield records.texts(conversation)[0], records.outcome(conversation)


# -- and comes back --------------------------------------------------------------------------------------


def branches_of(proxy: Served, reply: httpx.Response) -> int:
    return len(Records(proxy.db).branches(reply.headers["x-undercliff-conversation"]))


def test_row_8_a_retry_after_a_500_is_the_same_request(up: ScriptedUpstream, proxy: Served) -> None:
    """CLIENTS row 8: one branch, identical bytes upstream, each attempt with its own outcome."""
    up.enqueue(replies.error_reply(500, "boom"), replies.chat_stream("aye"))
    body, url = body_of(), f"{proxy.base_url}/chat/completions"
    first = httpx.post(url, json=body, timeout=10)
    second = httpx.post(url, json=body, headers={"x-stainless-retry-count": "1"}, timeout=10)
    assert (first.status_code, second.status_code) == (500, 200)
    assert up.requests[-1].body == up.requests[-2].body
    assert branches_of(proxy, second) == 1
    exchanges = Records(proxy.db).exchanges(second.headers["x-undercliff-conversation"])
    assert [(row.verdict, end.status) for row, end in exchanges if end] == [("new", 500), ("retry", 200)]
    assert (
        Records(proxy.db).texts(second.headers["x-undercliff-conversation"]).count(body["messages"][0]["content"]) == 1
    )


def test_row_9_a_retry_after_a_cut(up: ScriptedUpstream, proxy: Served) -> None:
    """CLIENTS row 9: what came of the call is stored, but is no part of the talk."""
    call = {"index": 0, "id": "call_cutoff0001", "type": "function", "function": {"name": "look", "arguments": ""}}
    cut = [event(chunk({"role": "assistant", "tool_calls": [call]}))]
    up.enqueue(replies.cut_stream(cut), replies.chat_stream("aye"))
    body, url = body_of(), f"{proxy.base_url}/chat/completions"
    httpx.post(url, json=body, timeout=10)
    second = httpx.post(url, json=body, headers={"x-stainless-retry-count": "1"}, timeout=10)
    assert branches_of(proxy, second) == 1
    records, conversation = Records(proxy.db), second.headers["x-undercliff-conversation"]
    assert [row.verdict for row, _ in records.exchanges(conversation)] == ["new", "retry"]
    assert any(b"call_cutoff0001" in raw for raw in records.raws(conversation))
    up.enqueue(replies.chat_stream("and on"))
    more = [*body["messages"], builders.assistant("aye"), builders.user("more")]
    third = httpx.post(url, json=builders.request(more, stream=True), timeout=10)
    assert records.exchanges(conversation)[-1][0].verdict == "continue" and branches_of(proxy, third) == 1


def test_row_10_the_client_goes_on_with_a_partial_answer(up: ScriptedUpstream, proxy: Served) -> None:
    """CLIENTS row 10: the text it had seen when it left leads back to its branch."""
    body, url = body_of(), f"{proxy.base_url}/chat/completions"
    partial = "the tide comes in along the eastern mole and"
    up.enqueue(stream_reply([content(partial), Hang()]))
    with httpx.stream("POST", url, json=body, timeout=10) as response:
        chunks = response.iter_raw()
        next(chunks)
    eventually(lambda: outcome_of(proxy, body))
    up.enqueue(replies.chat_stream("aye"))
    more = [*body["messages"], builders.assistant(partial), builders.user("and then?")]
    second = httpx.post(url, json=builders.request(more, stream=True), timeout=10)
    assert second.headers["x-undercliff-conversation"] == response.headers["x-undercliff-conversation"]
    assert branches_of(proxy, second) == 1
    conversation = second.headers["x-undercliff-conversation"]
    assert [row.verdict for row, _ in Records(proxy.db).exchanges(conversation)] == ["new", "continue"]
