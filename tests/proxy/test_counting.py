"""The provider's count: asked for with the caller's own key, bounded in time, and never in the way."""

from __future__ import annotations

import json

import pytest

from proxy.counting import PAUSE_S, InputCounter, could_decide
from proxy.upstream import Upstream, UpstreamOptions
from tests.support import replies
from tests.support.upstream import ScriptedUpstream

BODY = b'{"model":"m","input":"hello","stream":true}'


@pytest.mark.parametrize(
    ("expected", "new", "is_near"), [(900, 100, False), (990, 100, True), (1010, 100, True), (1100, 100, False)]
)
def test_only_a_count_that_could_be_wrong_enough_decides(expected: int, new: int, is_near: bool) -> None:
    assert could_decide(expected, new, 1000) is is_near


async def test_the_count_of_a_request_with_its_own_key_and_query() -> None:
    upstream = Upstream(UpstreamOptions())
    with ScriptedUpstream(lambda _: replies.json_reply({"input_tokens": 42})) as up:
        headers = [(b"authorization", b"Bearer sk-one"), (b"accept-encoding", b"br")]
        count = InputCounter(upstream).of(f"{up.base_url}/responses?api-version=1", headers)
        assert await count(BODY) == 42
        sent = up.requests[0]
        assert sent.target.endswith("/responses/input_tokens?api-version=1")
        assert sent.json() == {"model": "m", "input": "hello"} == json.loads(sent.body)
        assert sent.header("authorization") == "Bearer sk-one" and sent.header("accept-encoding") == "identity"
    await upstream.aclose()


@pytest.mark.parametrize("status", [404, 429, 500])
async def test_a_provider_that_does_not_count_is_left_alone_for_a_while(status: int) -> None:
    upstream, clock = Upstream(UpstreamOptions()), [0.0]
    with ScriptedUpstream(lambda _: replies.error_reply(status, "no")) as up:
        counter = InputCounter(upstream, clock=lambda: clock[0])
        count = counter.of(f"{up.base_url}/responses", [])
        assert [await count(BODY) for _ in range(3)] == [None] * 3 and len(up.requests) == 1
        clock[0] += PAUSE_S
        assert await count(BODY) is None and len(up.requests) == counter.asked == 2
    await upstream.aclose()


async def test_nobody_waits_long_for_a_count() -> None:
    upstream = Upstream(UpstreamOptions())
    with ScriptedUpstream(lambda _: replies.head_then_silence()) as up:
        counter = InputCounter(upstream, wait_s=0.05)
        assert await counter.of(f"{up.base_url}/responses", [])(BODY) is None
    assert await counter.of("http://127.0.0.1:9/v1/responses", [])(BODY) is None
    assert await counter.of("http://127.0.0.1:9/v2/responses", [])(b"no JSON") is None
    await upstream.aclose()
