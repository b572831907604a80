"""A provider's errors reach the client as they came; requests that nobody understands never become a 500 of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import httpx
import pytest

from tests.support import builders, replies
from tests.support.records import Records
from tests.support.serve import Served, served
from tests.support.signals import Counter, Gate
from tests.support.upstream import Action, ScriptedUpstream

NUMBERS = count(1)
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url) as running:
        yield running


def post(proxy: Served, content: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.post(f"{proxy.base_url}/chat/completions", content=content, headers=headers, timeout=20)


def ask(proxy: Served, *, stream: bool = False) -> httpx.Response:
    """One request of a conversation of its own."""
    messages = [builders.user(f"talk {next(NUMBERS)}")]
    return post(proxy, builders.body_bytes(builders.request(messages, stream=stream)))


def last_outcome(proxy: Served, reply: httpx.Response) -> Any:
    return Records(proxy.db).outcome(reply.headers["x-undercliff-conversation"])


def answer_of(action: Action) -> tuple[dict[str, str], bytes]:
    """Headers and body that a scripted answer sends."""
    head, _, body = b"".join(step.data for step in action.steps).partition(b"\r\n\r\n")  # type: ignore[union-attr]
    pairs = (line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.lower(): value for name, value in pairs}, body


LIMITED = {"x-ratelimit-limit-requests": "60", "x-ratelimit-reset-tokens": "6m0s", "x-request-id": "req_7"}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("after", ["7", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_retr_01_a_rate_limit_comes_through_whole(
    up: ScriptedUpstream, proxy: Served, after: str, stream: bool
) -> None:
    headers = [("retry-after", after), ("x-should-retry", "true"), *LIMITED.items(), ("etag", '"e1"')]
    action = replies.error_reply(429, "Rate limit reached", kind="requests", headers=headers)
    before = up.bodies_read
    up.enqueue(action)
    reply = ask(proxy, stream=stream)
    sent, body = answer_of(action)
    assert (reply.status_code, reply.content) == (429, body)
    assert {name: reply.headers.get(name) for name in sent if name not in HOP_BY_HOP} == sent
    assert up.bodies_read == before + 1
    outcome = last_outcome(proxy, reply)
    assert (outcome.status, outcome.outcome, outcome.attempts) == (429, "error", 1)


MINUTE = (
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens"
)
NEAR_MISSES = [
    replies.error_reply(429, f"{MINUTE} must be reduced in order to run successfully.", code="rate_limit_exceeded"),
    replies.error_reply(413, f"{MINUTE} must be reduced.", kind="tokens", code="rate_limit_exceeded"),
    replies.error_reply(429, "Too many tokens per day, please wait before trying again."),
    replies.error_reply(400, "Too many tokens processed in this minute; reduce the rate of requests."),
    replies.error_reply(503, "The model is overloaded. Please try again later.", kind="overloaded_error"),
    replies.error_reply(529, "Overloaded", kind="overloaded_error"),
    # RETR-05: large in bytes, not in tokens
    replies.raw_reply(413, b"<html><h1>413 Request Entity Too Large</h1></html>", [("content-type", "text/html")]),
    replies.error_reply(413, "Request body of 31457280 bytes exceeds the limit of 20971520 bytes"),
    replies.error_reply(400, "Image too large: 22 MB, the maximum is 20 MB", code="image_too_large"),
]


@pytest.mark.parametrize("action", NEAR_MISSES)
def test_retr_02_05_near_misses_are_relayed_unchanged(up: ScriptedUpstream, proxy: Served, action: Action) -> None:
    before = up.bodies_read
    up.enqueue(action)
    reply = ask(proxy)
    _, body = answer_of(action)
    assert reply.content == body and f" {reply.status_code} ".encode() in action.steps[0].data[:14]  # type: ignore[union-attr]
    assert up.bodies_read == before + 1
    assert not Records(proxy.db).folds(reply.headers["x-undercliff-conversation"])


ODD_BODIES = [
    (502, b"<html><body>Bad gateway</body></html>", [("content-type", "text/html; charset=utf-8")]),
    (403, b"nope", []),
    (404, b"not here", [("content-type", "text/plain")]),
    (500, b"", []),
    (500, b'{"error": {"message": "cut', [("content-type", "application/json")]),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("status", "body", "headers"), ODD_BODIES)
def test_retr_09_error_bodies_of_any_kind(
    up: ScriptedUpstream, proxy: Served, status: int, body: bytes, headers: list[tuple[str, str]], stream: bool
) -> None:
    up.enqueue(replies.raw_reply(status, body, headers))
    reply = ask(proxy, stream=stream)
    assert (reply.status_code, reply.content) == (status, body)
    assert reply.headers.get("content-type") == dict(headers).get("content-type")
    assert reply.headers["content-length"] == str(len(body))
    outcome = last_outcome(proxy, reply)
    assert (outcome.status, outcome.outcome) == (status, "error")


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_inside_a_success_is_relayed_and_stored_as_one(
    up: ScriptedUpstream, proxy: Served, stream: bool
) -> None:
    error = {"error": {"message": "the engine fell over", "type": "server_error", "code": 500}}
    data = replies.event(error) + replies.DONE
    up.enqueue(replies.stream_reply([data]) if stream else replies.json_reply(error))
    reply = ask(proxy, stream=stream)
    assert reply.status_code == 200
    assert reply.content == (data if stream else builders.body_bytes(error))
    outcome = last_outcome(proxy, reply)
    assert (outcome.outcome, outcome.error) == ("error", "the engine fell over")


@pytest.mark.parametrize(
    "body", [b'{"model":"m","messages":[{"role":"us', b"\xff\xfe{}", b"", b"[1,2]", b"null", b'"x"']
)
def test_retr_11_bodies_that_nobody_understands(up: ScriptedUpstream, proxy: Served, body: bytes) -> None:
    """Upstream gets the very bytes and answers for itself."""
    up.enqueue(replies.error_reply(400, "We could not parse the JSON body of your request."))
    reply = post(proxy, body)
    assert up.requests[-1].body == body
    assert reply.status_code == 400 and "could not parse" in reply.json()["error"]["message"]
    assert Records(proxy.db).exchanges()[-1][0].verdict == "bypass"


def test_retr_13_parallel_streams_of_one_beginning() -> None:
    """Same prompt, same model, no session header: both go out at once and both are answered with ordinary streams."""
    arrived, gate = Counter(), Gate()

    def handler(_: object) -> Action:
        arrived.add()
        return replies.stream_reply([gate, *replies.chat_events("as usual")])

    messages = [builders.system("x" * 8000), builders.user("the same")]
    body = builders.body_bytes(builders.request(messages, stream=True))
    with (
        ScriptedUpstream(handler) as up,
        served(up.base_url) as proxy,
        ThreadPoolExecutor() as pool,
    ):
        waiting = [pool.submit(post, proxy, body) for _ in range(2)]
        arrived.wait_sync(2)  # the second did not wait for the first
        gate.open()
        for reply in [future.result(20) for future in waiting]:
            assert reply.status_code == 200 and reply.content.endswith(replies.DONE)
            assert json.loads(reply.content.split(b"\n\n")[1].removeprefix(b"data: "))["choices"]


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_no_answer_at_all_is_a_bad_gateway_in_the_apis_shape(
    up: ScriptedUpstream, proxy: Served, stream: bool, reset: bool
) -> None:
    up.enqueue(replies.close_without_a_byte(reset=reset))
    reply = ask(proxy, stream=stream)
    assert reply.status_code == 502
    assert reply.json()["error"].keys() == {"message", "type", "param", "code"}
    assert reply.json()["error"]["code"] == "upstream_closed"


def test_nobody_listens() -> None:
    with served("http://127.0.0.1:9/v1") as proxy:
        reply = ask(proxy)
        assert reply.status_code == 502 and reply.json()["error"]["code"] == "upstream_connect"
        (conversation,) = Records(proxy.db).conversations()
        outcome = Records(proxy.db).outcome(conversation)
        assert (outcome.status, outcome.outcome) == (502, "error")


@pytest.mark.parametrize("depth", [900, 1000, 1020, 3000])
@pytest.mark.parametrize("place", [b'"messages":[{"role":"user","content":%s}]', b'"messages":[],"tools":%s'])
def test_a_request_nested_beyond_reading_goes_out_as_it_came(
    up: ScriptedUpstream, proxy: Served, depth: int, place: bytes
) -> None:
    body = b'{"model":"m",' + place % (b"[" * depth + b'"x"' + b"]" * depth) + b"}"
    up.enqueue(replies.json_reply(replies.completion("fine")))
    assert post(proxy, body).status_code == 200
    assert up.requests[-1].body == body
