"""Chat replies in one piece: the same joining of rounds as in streams."""

from __future__ import annotations

import json
from typing import Any

from proxy.wire.chat import ChatFormat
from proxy.wire.expand_body import ChatExpandBody
from tests.support.replies import completion, tool_call

NAME = "ctx_expand"
OURS = tool_call("call_ours", NAME, "{broken")
THEIRS = tool_call("call_theirs", "read_file", {"path": "a"})


def reader() -> ChatExpandBody:
    return ChatExpandBody(NAME, ChatFormat().read_element)


def give(made: ChatExpandBody, body: Any) -> bytes:
    assert made.feed(json.dumps(body).encode()) == b""
    return made.finish()


def test_an_ordinary_reply_keeps_its_bytes() -> None:
    body = completion("x", calls=[THEIRS])
    made = reader()
    assert give(made, body) == json.dumps(body).encode() and made.has_content
    assert made.reply().elements[0].calls[0].id == "call_theirs" and made.round().calls == ()


def test_rounds_become_one_body() -> None:
    made = reader()
    assert give(made, completion("First. ", calls=[OURS], prompt=10, output=3)) == b"" and made.wants_more
    assert not made.has_content
    (kept,) = made.round().elements
    assert kept.calls[0].arguments == "{}" and made.round().calls[0].arguments == "{broken"
    made.next_round()
    second = completion("Then.", calls=[THEIRS, OURS], prompt=20, output=4) | {"id": "second"}
    out = json.loads(give(made, second))
    (choice,) = out["choices"]
    assert out["id"] == "chatcmpl-scripted" and choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {"role": "assistant", "content": "First. Then.", "tool_calls": [THEIRS]}
    assert (out["usage"]["prompt_tokens"], out["usage"]["completion_tokens"], out["usage"]["total_tokens"]) == (
        20,
        7,
        27,
    )
    assert made.round().calls[0].before == ("call_theirs",)
    assert made.reply().text == "First. Then." and (made.reply().usage or 0)


def test_a_cut_reply_is_the_end() -> None:
    made = reader()
    out = json.loads(give(made, completion("x", calls=[OURS], finish="length")))
    assert not made.wants_more and "tool_calls" not in out["choices"][0]["message"]
    assert made.round().calls == ()


def test_what_is_no_reply_passes_as_it_came() -> None:
    for body in (b'{"error": {"message": "no"}}', b"<html>", b'{"choices": []}'):
        made = reader()
        made.feed(body)
        assert made.finish() == body and not made.wants_more
