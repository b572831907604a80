"""One question to a provider over a socket: its answer, its usage, its refusals, and when to ask again."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from proxy.demo.pairing import Refusal
from proxy.demo.provider import ScriptedCall
from proxy.demo.serving import serving
from proxy.evaluation.live.endpoint import PAUSES_S, SLOW, Endpoint

MESSAGES = [{"role": "user", "content": "hi"}]
CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
GOOD: dict[str, Any] = {
    "choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}],
    "usage": {"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}},
}


@dataclass(slots=True)
class Replies:
    """An ASGI app that gives the next of its replies to each request."""

    replies: list[tuple[int, Any]]
    asked: list[tuple[dict[str, Any], dict[str, str]]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        body = b""
        while True:
            message = await receive()
            body += message["body"]
            if not message.get("more_body"):
                break
        self.asked.append((json.loads(body), {k.decode(): v.decode() for k, v in scope["headers"]}))
        status, value = self.replies.pop(0)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(value).encode()})

    @contextmanager
    def endpoint(self, **settings: Any) -> Iterator[Endpoint]:
        with serving(self, lifespan="off") as url:
            yield Endpoint(f"{url}/v1", "m", sleep=self.slept.append, **settings)


def test_answer_usage_and_what_was_asked() -> None:
    server = Replies([(200, GOOD)])
    with server.endpoint(key="k", settings={"temperature": 0}) as endpoint:
        found = endpoint.ask(MESSAGES, [{"type": "function"}])
    assert not isinstance(found, Refusal)
    answer, usage = found.answer, found.usage
    assert found.message == GOOD["choices"][0]["message"]
    assert answer.calls == (ScriptedCall("a", "look", '{"at": 1}'),) and answer.text == ""
    assert usage is not None and (usage.input, usage.cached, usage.output) == (90, 64, 5)
    body, headers = server.asked[0]
    assert (
        body["max_tokens"] == 2048
        and body["temperature"] == 0
        and body["tools"]
        and headers["authorization"] == "Bearer k"
    )


def test_turned_away_for_now_is_asked_again() -> None:
    server = Replies([(429, {"error": {"message": "slow down"}}), (503, "busy"), (200, GOOD)])
    with server.endpoint() as endpoint:
        assert not isinstance(endpoint.ask(MESSAGES, []), Refusal)
    assert server.slept == list(PAUSES_S[:2]) and "tools" not in server.asked[0][0]
    assert "authorization" not in server.asked[0][1]


def test_in_the_end_it_is_a_refusal() -> None:
    server = Replies([(429, {"error": {"message": "slow down", "code": "rate"}})] * 9)
    with server.endpoint() as endpoint:
        found = endpoint.ask(MESSAGES, [])
    assert found == Refusal("slow down", None, "rate", 429) and len(server.asked) == len(PAUSES_S) + 1


def test_the_other_name_of_the_length() -> None:
    text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    server = Replies([(400, {"error": {"message": text}}), (200, GOOD)])
    with server.endpoint(most_output=7) as endpoint:
        assert not isinstance(endpoint.ask(MESSAGES, []), Refusal)
    assert [("max_tokens" in body, body.get("max_completion_tokens")) for body, _ in server.asked] == [
        (True, None),
        (False, 7),
    ]


@pytest.mark.parametrize(
    ("status", "value", "message"),
    [
        (401, {"error": {"message": "no such key"}}, "no such key"),
        (404, "nothing here", "nothing here"),
        (400, {"error": "odd"}, "odd"),
        (200, {"choices": []}, "no completion"),
        (200, ["?"], "no completion"),
    ],
)
def test_refusals(status: int, value: Any, message: str) -> None:
    server = Replies([(status, value)] * 9)
    with server.endpoint() as endpoint:
        found = endpoint.ask(MESSAGES, [])
    assert (
        isinstance(found, Refusal) and message in found.message and found.status == (502 if status == 200 else status)
    )


def test_this_machine_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server = Replies([(200, GOOD)])
    with server.endpoint() as endpoint:
        assert not isinstance(endpoint.ask(MESSAGES, []), Refusal)


def test_nobody_listens() -> None:
    found = Endpoint("http://127.0.0.1:9", "m", sleep=lambda _: None).ask(MESSAGES, [])
    assert isinstance(found, Refusal) and found.status == 503 and "ConnectError" in found.message


def test_who_says_nothing_is_not_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = Endpoint(url, "m", timeout_s=0.05, sleep=pytest.fail).ask(MESSAGES, [])
    assert isinstance(found, Refusal) and found.code == SLOW and "said nothing" in found.message


def test_the_key_is_not_shown() -> None:
    assert "k3y" not in repr(Endpoint("http://a", "m", key="k3y"))
