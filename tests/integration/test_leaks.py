"""What an exchange holds is gone when it is over, however it ended: counted in the proxy's own process."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections import Counter as Tally
from pathlib import Path

import aiohttp

from proxy.exchange import _Exchange
from proxy.link import ClientLink
from proxy.relay import Opening, Responder
from proxy.turn_state import Turn
from proxy.upstream import UpstreamResponse
from tests.support import builders
from tests.support.replies import DONE, chunk, cut_stream, event, stream_reply
from tests.support.serve import Served, served
from tests.support.upstream import Action, Hang, Request, ScriptedUpstream

WAVE = 100
AT_ONCE = 40
OF_AN_EXCHANGE = (_Exchange, ClientLink, Responder, Opening, Turn, UpstreamResponse)
WORDS = [event(chunk({"content": f"word {number} "})) for number in range(5)]


def flaky(request: Request) -> Action:
    """A fifth of the streams break, a fifth is left by the client in the middle and never ends by itself."""
    number = int(request.body.rsplit(b"number ", 1)[1].split(b"!", 1)[0])
    if number % 5 == 0:
        return cut_stream(WORDS)
    if number % 5 == 1:
        return stream_reply([*WORDS, Hang()])
    return stream_reply([*WORDS, event(chunk({}, finish="stop")), DONE])


def held() -> Tally[str]:
    """How many objects of exchanges there are in this process, in which the proxy runs as well."""
    gc.collect()
    return Tally(type(each).__name__ for each in gc.get_objects() if type(each) in OF_AN_EXCHANGE)


async def wave(proxy: Served, numbers: list[int]) -> None:
    """So many streams, some at once; every fifth is abandoned after its first bytes."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(session: aiohttp.ClientSession, number: int) -> None:
        messages = [builders.user(f"this is number {number}!")]
        body = builders.body_bytes(builders.request(messages, stream=True))
        async with gate, session.post(f"{proxy.base_url}/chat/completions", data=body) as reply:
            assert reply.status == 200
            await reply.content.readany()
            if number % 5 == 1:
                reply.close()
                return
            await reply.read()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:
        await asyncio.gather(*(one(session, number) for number in numbers))


async def test_perf_04_nothing_of_an_exchange_stays(tmp_path: Path) -> None:
    counter = itertools.count()
    with ScriptedUpstream(flaky) as up, served(up.base_url, tmp_path / "x.db") as proxy:
        for _ in range(2):
            await wave(proxy, [next(counter) for _ in range(WAVE)])
            async with asyncio.timeout(20):
                while left := held():
                    await asyncio.sleep(0.05)
            assert not left
