"""What a provider refuses reaches a real client as the client's own error, just as without the product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from tests.integration.clients import DRIVES, LITELLM_WARNING
from tests.support.client_loops import (
    CHAT_TOOL,
    KEY,
    MODEL,
    RESPONSES_TOOL,
    openai_async,
    openai_chat,
    openai_responses,
)
from tests.support.replies import error_reply, raw_reply
from tests.support.serve import served
from tests.support.strict_lists import ORPHAN
from tests.support.strict_model import StrictModel, ask, report
from tests.support.strict_responses import NO_OUTPUT
from tests.support.upstream import Action, ScriptedUpstream

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings(LITELLM_WARNING)]

RESPONSES_400 = error_reply(400, NO_OUTPUT.format("function call", "call_1"), param="input")
FAULTS: dict[str, Action] = {
    "429": error_reply(
        429,
        "Rate limit reached for scripted-1 on tokens per min (TPM): Limit 30000, Used 28000, Requested 4000.",
        kind="tokens",
        code="rate_limit_exceeded",
        headers=[("retry-after", "7"), ("x-ratelimit-remaining-tokens", "12"), ("x-request-id", "req_429")],
    ),
    "500": error_reply(
        500,
        "The server had an error while processing your request.",
        kind="server_error",
        headers=[("x-request-id", "r5")],
    ),
    "503-html": raw_reply(503, b"<html><h1>Service Unavailable</h1></html>", [("content-type", "text/html")]),
    "400": error_reply(400, ORPHAN, param="messages.[3].role", headers=[("x-request-id", "req_400")]),
}


@dataclass(frozen=True, slots=True)
class Met:
    """An error as the application meets it."""

    classes: tuple[str, ...]
    text: str
    status: int | None
    body: Any
    headers: tuple[tuple[str, str | None], ...]


HEADERS = ("retry-after", "x-request-id", "x-ratelimit-remaining-tokens", "content-type")


def met(error: BaseException, base_url: str) -> Met:
    names = tuple(f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__)
    reply = getattr(error, "response", None)
    headers = reply.headers if reply is not None else {}
    return Met(
        names,
        str(error).replace(base_url, ""),
        getattr(error, "status_code", None),
        getattr(error, "body", None),
        tuple((name, headers.get(name)) for name in HEADERS),
    )


@pytest.fixture(scope="module")
def route() -> Iterator[tuple[ScriptedUpstream, str]]:
    """One provider, and the product in front of it."""
    with ScriptedUpstream(StrictModel()) as upstream, served(upstream.base_url) as proxy:
        yield upstream, proxy.base_url


def failing(name: str, stream: bool, upstream: ScriptedUpstream, base_url: str, fault: Action) -> Met:
    upstream.enqueue(fault)
    seen = len(upstream.requests)
    with pytest.raises(Exception) as caught:  # its class is what is compared
        DRIVES[name](base_url, stream=stream, turns=1)
    assert len(upstream.requests) == seen + 1, "nobody may send it again"
    return met(caught.value, base_url)


@pytest.mark.parametrize("name", DRIVES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_error_is_the_clients_own(name: str, fault: str, stream: bool, route: tuple[ScriptedUpstream, str]) -> None:
    upstream, base_url = route
    action = RESPONSES_400 if fault == "400" and name.endswith("-responses") else FAULTS[fault]
    straight = failing(name, stream, upstream, upstream.base_url, action)
    through = failing(name, stream, upstream, base_url, action)
    assert through == straight
    assert straight.status in (None, int(fault[:3]))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("drive", [openai_chat, openai_async, openai_responses])
def test_the_clients_own_retries_find_the_same_session(drive: Any, stream: bool) -> None:
    """429 with a wait, then 500, then 503, in the middle: the client sends again what it sent, and it is one talk."""
    model, sent = StrictModel(), 0
    pause = [("retry-after-ms", "1")]
    faults = {4: error_reply(429, "Slow down.", code="rate_limit_exceeded", headers=pause)}
    faults |= {5: error_reply(500, "Oh.", headers=pause), 8: error_reply(503, "Busy.", headers=pause)}

    def handler(request: Any) -> Action:
        nonlocal sent
        sent += 1
        return faults.get(sent) or model(request)

    with ScriptedUpstream(handler) as upstream, served(upstream.base_url) as proxy:
        outcome = drive(proxy.base_url, stream=stream, turns=2, retries=2)
        retries = [request.header("x-stainless-retry-count") for request in upstream.requests]
    assert outcome.answers == [report(1), report(2)]
    assert not model.refusals
    assert [count for count in retries if count != "0"] == ["1", "2", "1"]
    assert upstream.requests[3].body == upstream.requests[4].body == upstream.requests[5].body


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", ["chat", "responses"])
def test_response_headers_are_the_providers_and_ours(
    path: str, stream: bool, route: tuple[ScriptedUpstream, str]
) -> None:
    upstream, base_url = route
    headers = []
    for url in (upstream.base_url, base_url):
        with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client:
            raw: Any = client.chat.completions if path == "chat" else client.responses
            said: Any = {"messages": [{"role": "user", "content": ask(1)}], "tools": [CHAT_TOOL]}
            if path == "responses":
                said = {"input": ask(1), "tools": [RESPONSES_TOOL]}
            with raw.with_streaming_response.create(model=MODEL, stream=stream, **said) as reply:
                headers.append({name: value for name, value in reply.headers.items() if name != "date"})
                reply.read()
    straight, through = headers
    own = {name: through.pop(name) for name in list(through) if name.startswith("x-undercliff-")}
    assert set(own) == {"x-undercliff-conversation", "x-undercliff-window", "x-undercliff-saved-tokens"}
    assert own["x-undercliff-conversation"] and own["x-undercliff-saved-tokens"] == "0"
    if stream:
        assert through.pop("x-accel-buffering") == "no"
    assert through == straight
    assert through["x-request-id"] == "req_scripted"


@pytest.mark.parametrize("usage", [None, False, True])
def test_usage_comes_to_those_who_ask(usage: bool | None, route: tuple[ScriptedUpstream, str]) -> None:
    """The last chunk of each stream tells usage exactly when the client asked; the provider is asked always."""
    upstream, base_url = route
    straight = openai_chat(upstream.base_url, stream=True, turns=1, usage=usage)
    before = len(upstream.requests)
    through = openai_chat(base_url, stream=True, turns=1, usage=usage)
    assert through == straight
    assert ["usage=True" in shapes[-1] for shapes in through.shapes] == [bool(usage)] * len(through.shapes)
    options = [request.json()["stream_options"] for request in upstream.requests[before:]]
    assert options == [{"include_usage": True}] * len(options)
