"""Responses replies in one piece, and what is kept of them over the rounds."""

from __future__ import annotations

import json
from typing import Any

from proxy.wire.expand_items import ResponsesExpandBody, is_ours, is_waited_for
from proxy.wire.responses import ResponsesFormat
from tests.support.responses_events import call_item, message_item, reasoning_item, response, usage

NAME = "ctx_expand"
OURS = call_item("fc_ours", "call_ours", NAME, "not json")
THEIRS = call_item("fc_theirs", "call_theirs", "read_file", "{}")


def play(made: ResponsesExpandBody, *bodies: Any) -> bytes:
    out = b""
    for number, body in enumerate(bodies):
        if number:
            made.next_round()
        assert made.feed(json.dumps(body).encode()) == b""
        out = made.finish()
    return out


def reader() -> ResponsesExpandBody:
    return ResponsesExpandBody(NAME, ResponsesFormat().read_element)


def test_whose_item_it_is() -> None:
    assert is_ours(OURS, NAME) and not is_ours(THEIRS, NAME) and not is_ours("x", NAME)
    assert is_waited_for(THEIRS, NAME) and not is_waited_for(OURS, NAME)
    assert not is_waited_for({"type": "web_search_call"}, NAME)


def test_an_ordinary_reply_keeps_its_bytes() -> None:
    body = response("resp_1", [message_item("m", "x"), THEIRS], usage(5, 5))
    made = reader()
    assert play(made, body) == json.dumps(body).encode()
    assert made.has_content and not made.round().calls


def test_rounds_become_one_body() -> None:
    made = reader()
    tools = [{"type": "function", "name": NAME}]
    first = response("resp_1", [reasoning_item("rs_1"), OURS], usage(10, 3), tools=tools)
    assert play(made, first) == b"" and made.wants_more and not made.has_content
    assert [element.kind for element in made.round().elements] == ["reasoning", "tool_call"]
    assert made.round().elements[1].calls[0].arguments == "{}" and made.round().calls[0].arguments == "not json"
    second = response("resp_2", [message_item("m", "answer"), OURS, THEIRS], usage(20, 4), tools=tools)
    made.next_round()
    out = json.loads(play(made, second))
    assert out["id"] == "resp_1" and out["usage"] == usage(20, 7) and out["tools"] == []
    assert [item["id"] for item in out["output"]] == ["rs_1", "m", "fc_theirs"]
    reply = made.reply()
    assert (reply.response_id, reply.finish, reply.text) == ("resp_1", "tool_calls", "answer")
    assert [element.kind for element in reply.elements] == ["reasoning", "message", "tool_call"]


def test_what_is_no_reply_passes_as_it_came() -> None:
    made = reader()
    body = {"error": {"message": "no", "code": "x"}}
    assert play(made, body) == json.dumps(body).encode() and made.error
    cut = reader()
    cut.feed(b'{"output": [')
    assert cut.finish() == b'{"output": [' and not cut.wants_more
