"""Replies to taken-over requests: the name goes in where the provider says null, and nothing else changes."""

from __future__ import annotations

import json

import pytest

from proxy.wire.expand_responses import ResponsesExpandStream
from proxy.wire.responses import ResponsesFormat
from proxy.wire.responses_named import NamedReply
from tests.support.feeds import feeds
from tests.support.responses_events import call_item, message_item, reply_events, response, usage

NULL, NAME = b'"previous_response_id": null', b'"previous_response_id": "resp_before"'
WHOLE = response("resp_2", [message_item("m", 'she said "previous_response_id": null')], usage(100, 7))


def named(*, is_stream: bool) -> NamedReply:
    return NamedReply(
        ResponsesFormat().reader(is_stream=is_stream, strip_usage=False), "resp_before", is_stream=is_stream
    )


def test_every_event_with_a_response_names_it_wherever_the_stream_is_cut() -> None:
    data = b"".join(reply_events({**WHOLE, "previous_response_id": None}))
    expected = data.replace(NULL, NAME)
    assert expected.count(NAME) == 3 and rb"\"previous_response_id\": null" in expected
    for chunks in feeds(data):
        made = named(is_stream=True)
        assert b"".join(made.feed(chunk) for chunk in chunks) + made.finish() == expected
        assert made.is_done and made.has_content and made.at_event_boundary
        assert made.reply().response_id == "resp_2" and made.reply().is_complete


def test_a_whole_body_names_it() -> None:
    body = json.dumps({"first": {"previous_response_id": None}, **WHOLE, "previous_response_id": None}).encode()
    made = named(is_stream=False)
    assert made.feed(body[:99]) == made.feed(body[99:]) == b""
    first, _, rest = body.partition(NULL)
    assert made.finish() == first + NULL + rest.replace(NULL, NAME)


@pytest.mark.parametrize(
    "body",
    [
        b'{"id":"resp_2","previous_response_id":"resp_of_the_providers_own"}',
        b'{"id":"resp_2","output":[{"previous_response_id":null}]}',
        b'{"id":"resp_2","previous_response_id":nul',
        b"not even JSON",
        b"",
    ],
)
def test_what_says_something_else_stays(body: bytes) -> None:
    made = named(is_stream=False)
    assert made.feed(body) + made.finish() == body
    event = b"event: response.created\ndata: " + (body or b"{}") + b"\n\n"
    made = named(is_stream=True)
    assert made.feed(event) + made.finish() == event


def test_data_of_several_lines_and_an_event_without_its_end() -> None:
    made = named(is_stream=True)
    lines = b'data: {"type":"response.created",\ndata: "response":{"previous_response_id": null}}\n\n'
    data = b"event: response.created\n" + lines
    out = made.feed(data)
    assert json.loads(out.partition(b"data: ")[2])["response"] == {"previous_response_id": "resp_before"}
    assert made.feed(b"data: {") == b"" and made.at_event_boundary
    assert made.finish() == b"data: {"


def test_rounds_of_hidden_calls_are_named_too() -> None:
    ours = call_item("fc_ours", "call_ours", "ctx_expand", '{"id":"abc"}')
    inner = ResponsesExpandStream("ctx_expand", ResponsesFormat().read_element)
    first = b"".join(reply_events({**response("resp_2", [ours], usage(100, 7)), "previous_response_id": None}))
    made = NamedReply(inner, "resp_before", is_stream=True)
    out = made.feed(first) + made.finish()
    assert inner.wants_more
    inner.next_round()
    made = NamedReply(inner, "resp_before", is_stream=True)
    second = b"".join(reply_events({**WHOLE, "id": "resp_3", "previous_response_id": None}))
    out += made.feed(second) + made.finish()
    documents = [json.loads(part.partition(b"data: ")[2]) for part in out.split(b"\n\n") if part]
    told = [d["response"]["previous_response_id"] for d in documents if "response" in d]
    assert told == ["resp_before"] * 3 and {d["response"]["id"] for d in documents if "response" in d} == {"resp_2"}
