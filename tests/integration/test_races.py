"""Many conversations at once, racing continuations, clients that leave at random, and sizes nobody plans for."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from typing import Any

import httpx

from proxy.store.base import Store
from proxy.views import find_window, render_window
from tests.support import builders, replies
from tests.support.records import Records
from tests.support.serve import Served, served
from tests.support.session import EAGER, FOLDED, NEVER, OMITTED, conversation, from_store, ok, strict
from tests.support.strict_lists import chat_fault
from tests.support.upstream import Action, Request, ScriptedUpstream

CONVERSATIONS = 30
ROUNDS = 5
MARK = re.compile(r"mark-(\d+)")


class SlowStrict:
    """Refuses lists that do not pair up, and takes its time by chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.refused: list[str] = []

    async def __call__(self, request: Request) -> Action:
        body = request.json()
        fault = chat_fault(body["messages"])
        if fault is not None:
            self.refused.append(fault[0])
        await asyncio.sleep(self.rng.random() * 0.03)
        mark = MARK.findall(request.body.decode())[0]
        if body.get("stream"):
            pause = self.rng.random() * 0.01
            events = [
                x for e in replies.chat_events(f"noted mark-{mark} ", prompt=400, with_usage=False) for x in (e, pause)
            ]
            return replies.stream_reply(events)
        return strict(request)


async def one_conversation(client: httpx.AsyncClient, proxy: Served, number: int, rng: random.Random) -> None:
    """Every round two continuations of one leaf race; one of them may be cut off in the middle."""
    mark = f"mark-{number:03d} "
    messages = [builders.system(mark), builders.user(mark + "go")]
    for turn in range(ROUNDS):
        lists = [[*messages, builders.user(f"{mark} {turn} {way}")] for way in ("left", "right")]
        tasks = [
            asyncio.ensure_future(send(client, proxy, number, each, is_stream=rng.random() < 0.5)) for each in lists
        ]
        if rng.random() < 0.4:
            await asyncio.sleep(rng.random() * 0.04)
            tasks[1].cancel()
        await tasks[0]
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[1]
        call = builders.call(f"c{turn}", what=mark)
        output = builders.result(f"c{turn}", mark + builders.long_text(number * 100 + turn, 2500))
        messages = [*lists[rng.random() < 0.5], builders.assistant(None, [call]), output]


async def send(client: httpx.AsyncClient, proxy: Served, number: int, messages: list[Any], *, is_stream: bool) -> None:
    body = builders.body_bytes(builders.request(messages, stream=is_stream))
    headers = {"content-type": "application/json", "authorization": f"Bearer sk-{number % 3}"}
    reply = await client.post(f"{proxy.base_url}/chat/completions", content=body, headers=headers)
    assert reply.status_code == 200, reply.text
    assert b"noted" in reply.content or b'"no"' in reply.content


async def test_racing_continuations_and_clients_that_leave() -> None:
    rng = random.Random(5)
    provider = SlowStrict(random.Random(6))
    async with ScriptedUpstream(provider) as up:
        with served(up.base_url, policy__options=EAGER) as proxy:
            limits = httpx.Limits(max_connections=100)
            async with httpx.AsyncClient(timeout=30, trust_env=False, limits=limits) as client:
                await asyncio.gather(
                    *(one_conversation(client, proxy, n, random.Random(rng.random())) for n in range(CONVERSATIONS))
                )
                db = proxy.db
                assert not provider.refused
                assert any(OMITTED in request.body for request in up.requests)
                for request in up.requests:
                    assert len(set(MARK.findall(request.body.decode()))) == 1
                records = Records(db)
                found = records.conversations()
                bodies = {request.body for request in up.requests}
                windows = [e.id for name in found for e, _ in records.exchanges(name)]
                assert len(windows) >= CONVERSATIONS * ROUNDS
                for name in found:
                    assert len(set(MARK.findall(b"".join(records.raws(name)).decode()))) == 1
                health = await client.get(f"{proxy.url}/ctx/ready")
                assert health.status_code == 200
                assert await asyncio.to_thread(from_store, db, lambda store: all_render(store, windows)) <= bodies


async def all_render(store: Store, exchanges: list[str]) -> set[bytes]:
    out = set()
    for exchange in exchanges:
        out.add(await render_window(store, await find_window(store, f"{exchange}-1")))
    return out


def test_a_conversation_of_3000_messages() -> None:
    """Nothing is quadratic: a continuation costs no more than the first request."""
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__options=EAGER) as proxy:
        messages = [builders.system(), builders.user("go"), *builders.steps(1500, 700)]
        started = time.perf_counter()
        first = ok(proxy, messages)
        first_s = time.perf_counter() - started
        took = []
        for number in range(1500, 1503):
            messages += builders.steps(1, 700, start=number)
            started = time.perf_counter()
            reply = ok(proxy, messages)
            took.append(time.perf_counter() - started)
        assert conversation(first) == conversation(reply)
        assert OMITTED in up.requests[-1].body
        assert first_s < 20 and min(took) < 4


def test_3000_messages_against_a_small_window() -> None:
    """Each request is a fork, as the client never takes the reply over: the guard acts all the same."""
    with (
        ScriptedUpstream(strict) as up,
        served(up.base_url, policy__options=NEVER, models={"*": {"window": 50_000}}) as proxy,
    ):
        messages = [builders.system(), builders.user("go"), *builders.steps(1500, 700)]
        ok(proxy, messages)
        messages += builders.steps(1, 700, start=1500)
        started = time.perf_counter()
        ok(proxy, messages)
        took = time.perf_counter() - started
        assert FOLDED in up.requests[-1].body and took < 10


def test_a_body_of_20_megabytes() -> None:
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__options=EAGER) as proxy:
        messages = [builders.system(), builders.user("go"), *builders.steps(4, 5_000_000)]
        started = time.perf_counter()
        ok(proxy, messages)
        first_s = time.perf_counter() - started
        messages += [builders.assistant("noted"), builders.user("and?")]
        started = time.perf_counter()
        ok(proxy, messages)
        second_s = time.perf_counter() - started
        assert len(up.requests[-1].body) < 100_000
        assert first_s < 60 and second_s < 20


def test_2000_tools() -> None:
    with ScriptedUpstream(strict) as up, served(up.base_url) as proxy:
        tools = [builders.tool(f"tool_{number}", builders.long_text(number, 500)) for number in range(2000)]
        messages = [builders.system(), builders.user("go")]
        took = []
        for number in range(4):
            body = builders.body_bytes(builders.request(messages, tools=tools))
            started = time.perf_counter()
            ok(proxy, body)
            took.append(time.perf_counter() - started)
            messages += builders.steps(1, 700, start=number)
        assert up.requests[-1].json()["tools"] == tools
        assert took[0] < 10 and min(took[1:]) < 1
