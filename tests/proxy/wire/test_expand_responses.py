"""Responses streams of several rounds as one response: cut at every byte, numbers running on, nothing of ours shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.wire.expand_responses import ResponsesExpandStream
from proxy.wire.responses import ResponsesFormat
from tests.support.feeds import feeds
from tests.support.responses_events import (
    call_item,
    failed_events,
    message_item,
    reasoning_item,
    reply_events,
    response,
    usage,
    wire_events,
)

NAME = "ctx_expand"
OURS = call_item("fc_ours", "call_ours", NAME, '{"id":"abc"}')
THEIRS = call_item("fc_theirs", "call_theirs", "read_file", '{"path":"a.py"}')
OTHER = call_item("fc_other", "call_other", "search", '{"q":"x"}')


def reader() -> ResponsesExpandStream:
    return ResponsesExpandStream(NAME, ResponsesFormat().read_element)


def play(made: ResponsesExpandStream, *rounds: Sequence[bytes]) -> bytes:
    out: list[bytes] = []
    for number, chunks in enumerate(rounds):
        if number:
            assert made.wants_more
            made.next_round()
        out += [made.feed(data) for data in chunks]
        out.append(made.finish())
    return b"".join(out)


def documents(stream: bytes) -> list[Any]:
    return [json.loads(part.partition(b"data: ")[2]) for part in stream.split(b"\n\n") if part]


def whole(
    items: Sequence[Any], response_id: str = "resp_1", tokens: int = 100, output: int = 7, **fields: Any
) -> bytes:
    return b"".join(reply_events(response(response_id, items, usage(tokens, output), **fields)))


CUTS = pytest.mark.parametrize("every_cut", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"])
"""Every cut into two chunks takes long; single bytes and a few cuts are in each run."""


def test_what_is_not_ours_passes_byte_for_byte() -> None:
    data = whole([reasoning_item("rs_1", "e"), message_item("m", "some words"), THEIRS])
    assert play(reader(), [data]) == data


@CUTS
def test_rounds_become_one_response_wherever_they_are_cut(every_cut: bool) -> None:
    first = whole([reasoning_item("rs_1"), message_item("m1", "Let me look."), OURS])
    second = whole([reasoning_item("rs_2"), message_item("m2", "It says 42."), THEIRS], "resp_2", 150, 5)
    wanted = play(reader(), [first], [second])
    assert b"ctx_expand" not in wanted and b"ours" not in wanted and b"resp_2" not in wanted
    seen = documents(wanted)
    assert [part["sequence_number"] for part in seen] == list(range(len(seen)))
    assert (
        [part["type"] for part in seen].count("response.created")
        == 1
        == sum(part["type"] == "response.completed" for part in seen)
    )
    added = [part for part in seen if part["type"] == "response.output_item.added"]
    assert [part["output_index"] for part in added] == [0, 1, 2, 3, 4]
    final = seen[-1]["response"]
    assert final["id"] == "resp_1" and final["usage"] == usage(150, 12)
    assert [item["id"] for item in final["output"]] == ["rs_1", "m1", "rs_2", "m2", "fc_theirs"]
    for chunks in feeds(first, every_cut=every_cut):
        assert play(reader(), chunks, [second]) == wanted
    for chunks in feeds(second, every_cut=every_cut):
        assert play(reader(), [first], chunks) == wanted


@CUTS
@pytest.mark.parametrize("calls", [[OURS, THEIRS], [THEIRS, OURS], [THEIRS, OURS, OTHER]])
def test_mixed_calls_reach_the_client_in_one_row(calls: list[Any], every_cut: bool) -> None:
    visible = [call for call in calls if call["name"] != NAME]
    wanted = documents(whole([message_item("m", "I look."), *visible]))
    for chunks in feeds(whole([message_item("m", "I look."), *calls]), every_cut=every_cut):
        made = reader()
        assert documents(play(made, chunks)) == wanted and not made.wants_more
    ended = made.round()
    assert [element.calls[0].id for element in ended.elements[1:]] == [call["call_id"] for call in calls]
    assert ended.is_visible == (True, *(call in visible for call in calls))
    assert [element.calls[0].id for element in made.reply().elements[1:]] == [call["call_id"] for call in visible]


def test_a_hidden_call_knows_which_calls_stood_before_it() -> None:
    made = reader()
    play(made, [whole([THEIRS, OURS, OTHER])])
    assert made.round().calls[0].before == ("call_theirs",)


def test_our_tool_is_taken_out_of_the_tools_that_the_provider_repeats() -> None:
    tools = [{"type": "function", "name": "read_file"}, {"type": "function", "name": NAME}]
    out = documents(play(reader(), [whole([message_item("m", "x")], tools=tools)]))
    assert all(part["response"]["tools"] == tools[:1] for part in out if "response" in part)


def test_an_incomplete_round_ends_the_reply_without_the_call() -> None:
    values = [{"type": "response.created", "response": response("resp_1", [], None)}]
    values.append({"type": "response.output_item.added", "output_index": 0, "item": {**OURS, "arguments": ""}})
    ended = {**response("resp_1", [{**OURS, "status": "incomplete"}], usage(9, 9)), "status": "incomplete"}
    values.append({"type": "response.incomplete", "response": ended})
    made = reader()
    out = documents(play(made, [b"".join(wire_events(values))]))
    assert [part["type"] for part in out] == ["response.created", "response.incomplete"]
    assert out[-1]["response"]["output"] == [] and out[-1]["sequence_number"] == 1
    assert not made.wants_more and made.round().calls == ()


def test_a_failure_in_a_later_round_ends_the_first_response() -> None:
    failed = {**response("resp_2", [], None), "status": "failed", "error": {"code": "server_error", "message": "boom"}}
    second = b"".join(wire_events([{"type": "response.failed", "response": failed}]))
    made = reader()
    out = documents(play(made, [whole([message_item("m", "a"), OURS])], [second]))
    assert out[-1]["response"]["id"] == "resp_1" and out[-1]["sequence_number"] == len(out) - 1
    assert b"boom" in made.error


def test_a_stream_without_numbers_gets_none() -> None:
    data = whole([OURS]).replace(b'"sequence_number"', b'"n"')
    out = play(reader(), [data], [whole([message_item("m", "x")], "resp_2").replace(b'"sequence_number"', b'"n"')])
    assert b"sequence_number" not in out and out.count(b"response.created") == 2


def test_content_counts_only_when_the_client_gets_some() -> None:
    made = reader()
    made.feed(whole([OURS]))
    assert not made.has_content and made.wants_more
    made.next_round()
    made.feed(whole([message_item("m", "x")]))
    assert made.has_content


def test_a_failure_in_place_of_content_is_no_content() -> None:
    """Something smaller may still be sent in its place, as without the tool."""
    made = reader()
    data = b"".join(failed_events("resp_1", "context_length_exceeded", "Your input exceeds the context window."))
    assert made.feed(data) == data
    assert b"context_length_exceeded" in made.error and not made.has_content
    made.restart()
    again = whole([message_item("m", "some words")])
    assert play(made, [again]) == again
