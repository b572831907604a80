"""No request holds the event loop, whatever its body: work on much that is new happens beside it (PERF-01, TOKN-03).

What a step costs is counted as the CPU of the loop's own thread, so a busy machine changes nothing, and
held against what the whole request cost in the same run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from proxy.building import build_exchanges
from proxy.core.headers import RawHeaders
from proxy.exchange import Exchanges
from proxy.link import ClientLink
from proxy.passthrough import RawRequest
from proxy.relay import Responder
from proxy.store.null import NullStore
from proxy.tokenizer import Tokenizer
from proxy.upstream import Upstream, UpstreamOptions, UpstreamResponse
from tests.support import builders, replies
from tests.support.serve import make_config

CASES = {
    "3,000 messages": [builders.user("go"), *builders.steps(1500, 300)],
    "5 MB in 201 messages": [builders.user("go"), *builders.steps(100, 50_000)],
    "one text of 6 MB": [builders.user("row 17 of the table reads 4 mm\n" * 200_000)],
    "6 MB of letters": [builders.user("a" * 6_000_000)],
    "6 MB of blanks": [builders.user("go"), *builders.step(0, " " * 6_000_000)],
}


class Ticker:
    """The most CPU that the loop's thread used between two looks at the clock."""

    def __init__(self) -> None:
        self.most = 0.0
        self.is_done = False

    async def run(self) -> None:
        last = time.thread_time()
        while not self.is_done:
            await asyncio.sleep(0.0005)
            now = time.thread_time()
            self.most, last = max(self.most, now - last), now


async def answer(exchanges: Exchanges, body: bytes) -> bytes:
    out: list[bytes] = []
    waiting = [body]

    async def receive() -> MutableMapping[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        out.append(message.get("body", b""))

    url = "http://provider.test/v1/chat/completions"
    request = RawRequest("POST", "/v1/chat/completions", url, [(b"content-type", b"application/json")], "t", "")
    fmt = exchanges.format_of(request)
    assert fmt is not None
    await exchanges.run(request, fmt, ClientLink(receive), Responder(send))
    return b"".join(out)


class Noted(UpstreamResponse):
    """A short reply."""

    def __init__(self) -> None:
        self.status = 200
        self.headers = []
        self._parts = [builders.body_bytes(replies.completion("noted"))]

    async def read(self) -> bytes:
        return self._parts.pop() if self._parts else b""

    async def aclose(self) -> None:
        pass

    def finish(self) -> None:
        pass


class Provider(Upstream):
    """Answers in this very process, at no cost."""

    def __init__(self) -> None:
        super().__init__(UpstreamOptions())
        self.sent: list[bytes] = []

    async def send(self, method: str, url: str, headers: RawHeaders, content: Any) -> UpstreamResponse:
        self.sent.append(content)
        return Noted()


@pytest.mark.parametrize("case", CASES)
async def test_perf_01_tokn_03_much_that_is_new_is_worked_on_beside_the_loop(tmp_path: Path, case: str) -> None:
    config = make_config("http://provider.test/v1", tmp_path / "x.db")
    upstream = Provider()
    tokenizer = Tokenizer()
    await tokenizer.load()
    exchanges = await build_exchanges(config, NullStore(), upstream, tokenizer)
    await answer(exchanges, builders.body_bytes(builders.request([builders.user("warm")])))
    body = builders.body_bytes(builders.request(CASES[case]))
    ticker = Ticker()
    async with asyncio.TaskGroup() as group:
        group.create_task(ticker.run())
        before = time.process_time()
        reply = await answer(exchanges, body)
        used = time.process_time() - before
        ticker.is_done = True
    assert b"noted" in reply and upstream.sent[-1] == body
    print(f"{case}: {used * 1000:.0f} ms, longest step {ticker.most * 1000:.1f} ms")
    assert ticker.most < used / 4


async def test_perf_01_a_long_list_that_is_known_is_gone_over_in_small_steps(tmp_path: Path) -> None:
    """It goes on, it comes again, it forks: each time a small share of what reading it anew takes."""
    tokenizer = Tokenizer()
    await tokenizer.load()
    config = make_config("http://provider.test/v1", tmp_path / "x.db")
    exchanges = await build_exchanges(config, NullStore(), Provider(), tokenizer)
    messages = [builders.user("go"), *builders.steps(1500, 300)]
    before = time.process_time()
    await answer(exchanges, builders.body_bytes(builders.request(messages)))
    used = time.process_time() - before
    grown = [*messages, builders.assistant("noted"), builders.user("and now the rest")]
    forked = [*messages[:-40], builders.user("no, leave the rest out")]
    for known in (grown, grown, forked):
        ticker = Ticker()
        async with asyncio.TaskGroup() as group:
            group.create_task(ticker.run())
            await answer(exchanges, builders.body_bytes(builders.request(known)))
            ticker.is_done = True
        assert ticker.most < used / 8
