"""A list too large for the model: made smaller once, unseen by the client; the second time said in clean words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from tests.support import builders, replies
from tests.support.records import Records
from tests.support.replies import DONE, chat_events, chunk, event, stream_reply
from tests.support.serve import Served, served
from tests.support.signals import Gate
from tests.support.upstream import Action, ScriptedUpstream

NUMBERS = count(1)
LIMIT = 20_000
CLEAN = "grew too large"
OVERFLOW = {
    "error": {
        "message": f"This model's maximum context length is {LIMIT} tokens. However, your messages resulted in 31000 "
        "tokens. Please reduce the length of the messages.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(
        up.base_url,
        models={"scripted-*": {"window": 1_000_000}},
        policy__options={"mask_at": 1_000_000},
        server__hold_head_s=0.1,
        overflow__patterns=["the scroll is too long"],
    ) as running:
        yield running


def messages_of(count: int = 12) -> list[dict[str, Any]]:
    """A conversation of its own, some 2,000 tokens a step."""
    number = next(NUMBERS)
    return [
        builders.system(),
        builders.user(f"read the gauges of station {number}"),
        *builders.steps(count, 6000, start=number * 100),
        builders.assistant("All read."),
        builders.user("so?"),
    ]


def post(proxy: Served, messages: list[dict[str, Any]], *, stream: bool = False, **extra: Any) -> httpx.Response:
    body = builders.body_bytes(builders.request(messages, stream=stream, tools=[builders.tool()], **extra))
    return httpx.post(f"{proxy.base_url}/chat/completions", content=body, timeout=20)


def sent(up: ScriptedUpstream, since: int) -> list[dict[str, Any]]:
    return [request.json() for request in up.requests[since:]]


def answer(text: str, *, stream: bool) -> Action:
    whole = replies.completion(text, prompt=9000)
    return replies.chat_stream(text, with_usage=False) if stream else replies.json_reply(whole)


# One wording a line, all for the limit of 20,000: RETR-04.
WORDINGS: list[tuple[int, Any]] = [
    (400, OVERFLOW),
    (400, {"error": {"message": "Input length 31000 exceeds the maximum input length of 20000", "code": "400"}}),
    (400, {"error": {"message": "The prompt exceeds the model's maximum context length (20,000).", "code": None}}),
    (400, {"object": "error", "message": "The prompt (31,000 tokens) exceeds the model context (20,000 tokens)."}),
    (400, {"error": {"message": "Range of input length should be [1, 20000]", "type": "invalid_request_error"}}),
    (422, {"detail": "prompt tokens + max new tokens must be <= 20000. Given: 31000 prompt tokens and 512 new tokens"}),
    (400, {"error": {"message": "Your request has 31000 tokens, the allowed maximum is 20000 tokens.", "code": 400}}),
    (400, {"error": {"code": 400, "message": "the request exceeds the available context size", "n_ctx": 20000}}),
    (413, {"detail": {"error": {"message": "prompt is too long: 31000 tokens > 20000 maximum", "code": "400"}}}),
    (400, [{"error": {"code": 400, "message": "Input token count (31000) exceeds the maximum number (20000)."}}]),
    (400, {"object": "error", "detail": {"message": "31,000 tokens exceed the context window of 20,000 tokens"}}),
    (400, {"code": "invalid argument", "error": "maximum prompt length is 20000 but the request has 31000 tokens."}),
    (400, {"error": {"message": "Provider returned error", "metadata": {"raw": json.dumps(OVERFLOW)}}}),
    (400, {"error": {"message": "Sorry, the scroll is too long."}}),  # in the configuration alone
]  # fmt: skip


@pytest.mark.parametrize(("status", "value"), WORDINGS)
def test_retr_04_every_wording_gets_one_compaction_and_one_retry(
    up: ScriptedUpstream, proxy: Served, status: int, value: Any
) -> None:
    since = len(up.requests)
    messages = messages_of()
    up.enqueue(replies.json_reply(value, status), answer("recovered", stream=False))
    reply = post(proxy, messages)
    assert reply.status_code == 200 and reply.json()["choices"][0]["message"]["content"] == "recovered"
    first, second = sent(up, since)
    assert first["messages"] == messages
    assert len(json.dumps(second)) < 0.8 * len(json.dumps(first))
    assert second["messages"][0] == messages[0] and second["messages"][-1] == messages[-1]
    assert is_paired(second["messages"])
    outcome = Records(proxy.db).outcome(reply.headers["x-undercliff-conversation"])
    assert (outcome.outcome, outcome.attempts) == ("ok", 2)


def is_paired(messages: list[dict[str, Any]]) -> bool:
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return False
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return False
        else:
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
    return not open_calls


ROLE, *REST = chat_events("never seen")
IN_STREAM = [
    [event(OVERFLOW), DONE],
    [b": PROCESSING\n\n", event(chunk(None)), ROLE, event(OVERFLOW), DONE],
    [b"event: error\n" + event(OVERFLOW)],
    [event({**chunk({}, finish="error"), **OVERFLOW})],
]


@pytest.mark.parametrize("parts", IN_STREAM)
def test_an_overflow_inside_a_stream_is_retried_unseen(up: ScriptedUpstream, proxy: Served, parts: list[bytes]) -> None:
    since = len(up.requests)
    up.enqueue(stream_reply(parts), answer("recovered", stream=True))
    reply = post(proxy, messages_of(), stream=True)
    assert reply.content == b"".join(chat_events("recovered", with_usage=False))
    first, second = sent(up, since)
    assert len(json.dumps(second)) < 0.8 * len(json.dumps(first))


def test_an_overflow_inside_a_success_without_a_stream(up: ScriptedUpstream, proxy: Served) -> None:
    up.enqueue(replies.json_reply(OVERFLOW), answer("recovered", stream=False))
    reply = post(proxy, messages_of())
    assert reply.json()["choices"][0]["message"]["content"] == "recovered"


def test_the_head_goes_out_early_and_the_events_stay_held(up: ScriptedUpstream, proxy: Served) -> None:
    """After hold_head_s the client has its head; an overflow that comes later is still retried unseen."""
    gate = Gate()
    up.enqueue(stream_reply([ROLE, gate, event(OVERFLOW), DONE]), answer("recovered", stream=True))
    body = builders.request(messages_of(), stream=True)
    with httpx.stream("POST", f"{proxy.base_url}/chat/completions", json=body, timeout=20) as response:
        assert response.status_code == 200 and not gate.is_open
        gate.open()
        assert b"".join(response.iter_raw()) == b"".join(chat_events("recovered", with_usage=False))


def test_a_slow_body_is_retried_behind_an_early_head(up: ScriptedUpstream, proxy: Served) -> None:
    """The length that the first attempt promised does not bind the second."""
    refused, gate = builders.body_bytes(OVERFLOW), Gate()
    head = replies.head(200, [("content-type", "application/json")], length=len(refused) + 1)
    up.enqueue(Action((*_sends(head, b"\n"), gate, *_sends(refused))), answer("recovered", stream=False))
    body = builders.request(messages_of())
    with httpx.stream("POST", f"{proxy.base_url}/chat/completions", json=body, timeout=20) as response:
        assert response.status_code == 200 and not gate.is_open
        gate.open()
        assert json.loads(response.read())["choices"][0]["message"]["content"] == "recovered"


def _sends(*parts: bytes) -> tuple[Any, ...]:
    return tuple(replies.Send(part) for part in parts)


@pytest.mark.parametrize("status", [400, 413])
def test_retr_07_the_second_overflow_is_said_in_clean_words(up: ScriptedUpstream, proxy: Served, status: int) -> None:
    since = len(up.requests)
    refusal = replies.json_reply(OVERFLOW, status, headers=[("x-request-id", "req_9")])
    up.enqueue(refusal, refusal)
    messages = messages_of()
    reply = post(proxy, messages)
    assert len(sent(up, since)) == 2
    error = reply.json()["error"]
    assert reply.status_code == status and reply.headers["x-request-id"] == "req_9"
    assert CLEAN in error["message"] and "again" in error["message"]
    assert (error["code"], error["type"], error["param"]) == (
        "context_length_exceeded",
        "invalid_request_error",
        "messages",
    )
    records, conversation = Records(proxy.db), conversation_with(proxy, messages)
    assert records.outcome(conversation).outcome == "overflow"
    assert not records.folds(conversation)  # nothing is flagged by a window that the provider did not take
    up.enqueue(answer("fresh", stream=False))
    again = post(proxy, messages)
    assert again.status_code == 200 and len(sent(up, since)) == 3


def conversation_with(proxy: Served, messages: list[dict[str, Any]]) -> str:
    records = Records(proxy.db)
    (found,) = [c for c in records.conversations() if messages[1]["content"] in records.texts(c)]
    return found


def test_the_second_overflow_inside_streams(up: ScriptedUpstream, proxy: Served) -> None:
    """No event was passed on: the client gets a status, which its library understands best."""
    since = len(up.requests)
    up.enqueue(stream_reply([ROLE, event(OVERFLOW), DONE]), stream_reply([event(OVERFLOW), DONE]))
    reply = post(proxy, messages_of(), stream=True)
    assert len(sent(up, since)) == 2
    assert reply.status_code == 400 and CLEAN in reply.json()["error"]["message"]


def test_the_second_overflow_behind_an_early_head(up: ScriptedUpstream, proxy: Served) -> None:
    gate = Gate()
    up.enqueue(stream_reply([ROLE, gate, event(OVERFLOW), DONE]), replies.json_reply(OVERFLOW, 400))
    body = builders.request(messages_of(), stream=True)
    with httpx.stream("POST", f"{proxy.base_url}/chat/completions", json=body, timeout=20) as response:
        assert response.status_code == 200
        gate.open()
        (last,) = b"".join(response.iter_raw()).split(b"\n\n")[:-1]
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert CLEAN in error["message"] and error["code"] == "context_length_exceeded"


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_an_overflowing_output_allowance_is_lowered(up: ScriptedUpstream, proxy: Served, key: str) -> None:
    """The input alone would fit: nothing of it is touched, only the allowance."""
    since = len(up.requests)
    text = (
        f"This model's maximum context length is {LIMIT} tokens. However, you requested 24000 tokens (8000 in the "
        "messages, 16000 in the completion). Please reduce the length of the messages or completion."
    )
    up.enqueue(replies.error_reply(400, text, code="context_length_exceeded"), answer("short", stream=False))
    messages = messages_of(3)
    reply = post(proxy, messages, **{key: 16_000})
    assert reply.status_code == 200
    first, second = sent(up, since)
    assert second["messages"] == first["messages"] == messages
    assert first[key] == 16_000 and 11_000 < second[key] <= 12_000
    assert {**second, key: 0} == {**first, key: 0}


def test_a_limit_once_named_is_remembered() -> None:
    """The next list that would pass it is made smaller before it is sent."""
    with (
        ScriptedUpstream() as up,
        served(
            up.base_url, models={"scripted-*": {"window": 1_000_000}}, policy__options={"mask_at": 1_000_000}
        ) as proxy,
    ):
        messages = messages_of()
        up.enqueue(replies.json_reply(OVERFLOW, 400), answer("recovered", stream=False))
        post(proxy, messages)
        for turn in range(6):
            messages += [builders.assistant("recovered"), builders.user(f"next {turn}")]
            messages += builders.steps(1, 6000, start=5000 + turn)
            up.enqueue(replies.json_reply(replies.completion("recovered", prompt=len(str(up.requests[-1].body)) // 3)))
            assert post(proxy, messages).status_code == 200
        assert len(up.requests) == 2 + 6  # not one more refusal was risked


def is_shortened(body: bytes) -> bool:
    return b"omitted from history" in body or b"[excerpt of" in body


def test_row_46_a_rewritten_list_that_is_refused_goes_out_as_it_came() -> None:
    """CLIENTS row 46: the plan is dropped, and the branch left alone from then on."""

    def handler(request: Any) -> Action:
        if is_shortened(request.body):
            return replies.error_reply(400, "Invalid 'messages[3].content': not to our taste.")
        return replies.json_reply(replies.completion("taken", prompt=9000))

    with ScriptedUpstream(handler) as up, served(up.base_url, policy__options={"mask_at": 3000}) as proxy:
        messages = messages_of()
        assert post(proxy, messages).status_code == 200
        for turn in range(3):
            messages += [builders.assistant("taken"), builders.user(f"and {turn}?")]
            assert post(proxy, messages).status_code == 200
            assert up.requests[-1].json()["messages"] == messages
        tries = [is_shortened(request.body) for request in up.requests]
        assert tries.count(True) == 1 and len(up.requests) == 1 + 3 + 1


def test_a_rewritten_list_that_meets_a_rate_limit_is_not_sent_again() -> None:
    limited = replies.error_reply(429, "Rate limit reached", headers=[("retry-after", "7")])
    with ScriptedUpstream() as up, served(up.base_url, policy__options={"mask_at": 3000}) as proxy:
        messages = messages_of()
        up.enqueue(answer("taken", stream=False), limited)
        post(proxy, messages)
        messages += [builders.assistant("taken"), builders.user("and?")]
        reply = post(proxy, messages)
        assert (reply.status_code, reply.headers["retry-after"], len(up.requests)) == (429, "7", 2)
        assert is_shortened(up.requests[-1].body)


def test_what_cannot_be_made_smaller_gets_the_providers_own_words(up: ScriptedUpstream, proxy: Served) -> None:
    """One message that no model has answered yet: there is nothing to leave out, and no second try."""
    since = len(up.requests)
    up.enqueue(replies.json_reply(OVERFLOW, 400))
    reply = post(proxy, [builders.user(builders.long_text(next(NUMBERS), 90_000))])
    assert (reply.status_code, reply.json(), len(sent(up, since))) == (400, OVERFLOW, 1)
