from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from proxy.demo.bill import Rates
from proxy.demo.provider import Answer, Provider, ScriptedCall, count_quarters
from proxy.demo.serving import serving
from tests.support.builders import assistant, call, long_text, request, result, user

ANSWER = Answer("Looking.", (ScriptedCall("c1", "look", '{"what": "tides"}'),))


@pytest.fixture
def provider() -> Provider:
    return Provider(lambda messages: ANSWER, window=9_000, rates=Rates(cliff=4_000))


@pytest.fixture
def url(provider: Provider) -> Iterator[str]:
    with serving(provider) as base:
        yield f"{base}/v1"


def post(url: str, body: dict[str, object], key: str = "k") -> httpx.Response:
    return httpx.post(f"{url}/chat/completions", json=body, headers={"authorization": f"Bearer {key}"})


def test_whole_answer_with_usage(url: str, provider: Provider) -> None:
    reply = post(url, request([user("hi")])).json()
    assert reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"what": "tides"}'
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    assert (
        reply["usage"]["prompt_tokens"]
        == provider.served[0].usage.input
        == count_quarters('{"role":"user","content":"hi"}')
    )


@pytest.mark.parametrize("wants_usage", [True, False])
def test_streamed_answer(url: str, wants_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if wants_usage else {}
    text = post(url, request([user("hi")], stream=True, **options)).text
    assert text.endswith("data: [DONE]\n\n")
    events = [json.loads(line[6:]) for line in text.split("\n\n") if line.startswith("data: {")]
    assert ("usage" in events[-1] and events[-1]["choices"] == []) is wants_usage
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Looking."
    pieces = [piece["function"]["arguments"] for delta in deltas for piece in delta.get("tool_calls", [])]
    assert "".join(pieces) == '{"what": "tides"}'


def test_cache_belongs_to_a_key(url: str, provider: Provider) -> None:
    body = request([user(long_text(1, 6_000)), assistant(None, [call("c1")]), result("c1", "x")])
    for key in ("one", "one", "two"):
        post(url, body, key)
    assert [served.usage.cached > 1000 for served in provider.served] == [False, True, False]


def test_cliff_is_charged(url: str, provider: Provider) -> None:
    for size in (15_000, 17_000):
        post(url, request([user(long_text(1, size))]), key=str(size))
    below, above = provider.served
    assert (below.is_above_cliff, above.is_above_cliff) == (False, True)
    assert above.cost > 1.9 * below.cost


def test_overflow_in_openais_words(url: str, provider: Provider) -> None:
    reply = post(url, request([user(long_text(1, 40_000))]))
    tokens = int(reply.json()["error"]["message"].split("resulted in ")[1].split()[0])
    assert reply.status_code == 400 and tokens > 9_000
    assert reply.json() == {
        "error": {
            "message": "This model's maximum context length is 9000 tokens. "
            f"However, your messages resulted in {tokens} tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }
    assert provider.served[0].cost == 0
    reply = post(url, request([user("hi")], max_tokens=9_000))
    assert "(7 in the messages, 9000 in the completion)" in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (request([user("hi"), result("a", "x")]), 400, "preceeding message"),
        (request([]), 400, "Invalid 'messages'"),
        ({"messages": [user("hi")]}, 400, "model parameter"),
        (request([user("hi")], stream_options={"include_usage": True}), 400, "stream_options"),
    ],
)
def test_refusals(url: str, body: dict[str, object], status: int, words: str) -> None:
    reply = post(url, body)
    assert reply.status_code == status and words in reply.json()["error"]["message"]


def test_other_paths(url: str) -> None:
    assert httpx.get(f"{url}/models").json()["data"]
    assert httpx.get(f"{url}/nowhere").status_code == 404
    assert httpx.post(f"{url}/chat/completions", content=b"{").status_code == 400
