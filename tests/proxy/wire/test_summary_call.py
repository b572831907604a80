"""The request for a summary and what is read from its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.wire.summary_call import summary_reply, summary_request
from tests.support import builders, replies


def test_the_request_is_as_plain_as_can_be() -> None:
    body = json.loads(summary_request("small", "Write.", "berth \u2028 4711"))
    assert body == {
        "model": "small",
        "messages": [{"role": "system", "content": "Write."}, {"role": "user", "content": "berth \u2028 4711"}],
        "stream": False,
    }


def test_a_lone_surrogate_does_not_stop_it() -> None:
    assert b"half" in summary_request("small", "Write.", "half \ud83d pair")


def read(value: Any) -> Any:
    return summary_reply(builders.body_bytes(value))


def test_an_answer() -> None:
    reply = read(replies.completion("said", prompt=70))
    assert (reply.text, reply.finish, reply.has_calls, reply.is_refusal) == ("said", "stop", False, False)
    assert reply.usage is not None and reply.usage.input == 70


def test_parts_calls_refusals_and_reasoning() -> None:
    message: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}
    wrap = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    assert read(wrap).text == "ab"
    message.update(content=None, refusal="no")
    assert read(wrap).is_refusal and read(wrap).text == ""
    message.update(refusal=None, reasoning_content="hm")
    assert read(wrap).has_reasoning and not read(wrap).is_refusal
    assert read(replies.completion(None, calls=[builders.call("c1")])).has_calls


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", b'{"choices": 3}'])
def test_no_answer(body: bytes) -> None:
    assert summary_reply(body) is None
