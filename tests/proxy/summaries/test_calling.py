"""A summarizer's call: an endless answer is left, a failure names its status and how long to wait, no key is told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from proxy.summaries.base import Caller, SummarizerError
from proxy.summaries.calling import ask
from proxy.upstream import Upstream, UpstreamOptions
from tests.support import replies
from tests.support.upstream import ScriptedUpstream

CALLER = Caller("m", [(b"authorization", b"Bearer sk-client-4711")])


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    made = Upstream(UpstreamOptions())
    yield made
    await made.aclose()


async def test_the_body_of_a_good_answer(upstream: Upstream) -> None:
    with ScriptedUpstream(lambda request: replies.raw_reply(200, b"{}")) as up:
        assert await ask(upstream, f"{up.base_url}/x", "", CALLER, b"[]") == b"{}"
        assert up.requests[0].body == b"[]"


async def test_an_endless_answer_is_left(upstream: Upstream) -> None:
    with (
        ScriptedUpstream(lambda request: replies.raw_reply(200, b"x" * 3_000)) as up,
        pytest.raises(SummarizerError, match="endless"),
    ):
        await ask(upstream, f"{up.base_url}/x", "", CALLER, b"[]", most_bytes=1_000)


async def test_a_failure_says_what_the_provider_said_but_no_key(upstream: Upstream) -> None:
    reply = replies.raw_reply(429, b"slow down, sk-client-4711", headers=[("retry-after", "7")])
    with ScriptedUpstream(lambda request: reply) as up, pytest.raises(SummarizerError, match="status 429") as caught:
        await ask(upstream, f"{up.base_url}/x", "", CALLER, b"[]")
    assert caught.value.retry_after_s == 7.0 and "4711" not in str(caught.value)


async def test_nobody_answers(upstream: Upstream) -> None:
    with pytest.raises(SummarizerError, match="cannot connect"):
        await ask(upstream, "http://127.0.0.1:9/x", "", CALLER, b"[]")
