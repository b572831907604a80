"""Lists that stand at the provider in part, put together: byte for byte where nothing had to change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.core.model import Conversation, Element
from proxy.wire.base import FrameEdits, Piece
from proxy.wire.responses import ResponsesFormat
from proxy.wire.responses_chain import (
    as_list,
    asks_for_state,
    behind,
    can_stand_alone,
    named_by,
    references,
    with_references,
)
from proxy.wire.responses_items import provider_id

FMT = ResponsesFormat()
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}


def element(item: Any) -> Element:
    return FMT.read_element(json.dumps(item).encode())


def request(body: bytes) -> Conversation:
    return FMT.decode(body, {})


def encoded(conversation: Conversation) -> bytes:
    pieces = [Piece(item.raw, index) for index, item in enumerate(conversation.elements)]
    return FMT.encode(conversation, pieces, FrameEdits())


@pytest.mark.parametrize("field_first", [True, False])
def test_a_list_behind_a_response_keeps_every_other_byte(field_first: bool) -> None:
    field, items = b'"previous_response_id" : "resp_1"', b'"input":[ {"role":"user","content":"b"}\n]'
    parts = [field, items] if field_first else [items, field]
    body = b'{"model":"m", ' + b" , ".join(parts) + b',"tools":[]}'
    history = [element({"role": "user", "content": "a"}), element({"role": "assistant", "content": "x"})]
    whole = behind(request(body), history, FMT.read_element)
    expected = body.replace(b'"resp_1"', b"null").replace(
        b'{"role":"user","content":"b"}', b",".join([*(item.raw for item in history), b'{"role":"user","content":"b"}'])
    )
    assert encoded(whole) == expected
    assert [item.role for item in whole.elements] == ["user", "assistant", "user"]
    assert not asks_for_state(whole)


def test_bare_strings_become_messages_of_the_list() -> None:
    history = [FMT.read_element(b'"a"'), element({"role": "assistant", "content": "x"})]
    whole = behind(request(b'{"model":"m","previous_response_id":"r","input":"b"}'), history, FMT.read_element)
    assert json.loads(encoded(whole))["input"] == [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "b"},
    ]  # fmt: skip
    assert [a.hash for a in as_list(history, FMT.read_element)] == [b.hash for b in history]
    assert json.loads(encoded(whole))["previous_response_id"] is None


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({}, False),
        ({"conversation": None, "background": False, "context_management": []}, False),
        ({"conversation": "c"}, True),
        ({"conversation": {"id": "c"}}, True),
        ({"background": True}, True),
        ({"prompt": {"id": "p"}}, True),
        ({"context_management": [{"type": "compaction"}]}, True),
    ],
)
def test_other_state_is_seen(field: dict[str, Any], expected: bool) -> None:
    body = {"model": "m", "previous_response_id": "r", **field, "input": "b"}
    assert asks_for_state(behind(request(json.dumps(body).encode()), [], FMT.read_element)) == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "user", "content": "a"}, True),
        (CALL, True),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "x"}, True),
        ({"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}, True),
        ({"type": "reasoning", "summary": []}, False),
        ({"type": "reasoning", "summary": [], "encrypted_content": None}, False),
        ({"type": "reasoning", "summary": [], "encrypted_content": ""}, False),
        ({"type": "web_search_call", "id": "ws_1", "action": {}}, False),
        ({"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "output": "x"}, False),
        ({"type": "computer_call", "call_id": "c", "action": {}}, False),
        ({"type": "compaction", "encrypted_content": "x"}, False),
        ({"type": "item_reference", "id": "msg_1"}, False),
        ({"type": "of tomorrow"}, False),
    ],
)
def test_only_what_means_the_same_anywhere_stands_alone(item: Any, expected: bool) -> None:
    assert can_stand_alone([element(item)]) == expected


def test_a_reference_is_what_it_names_and_goes_out_as_it_came() -> None:
    body = {
        "model": "m",
        "input": [{"role": "user", "content": "a"}, {"id": "fc_1"}, {"type": "item_reference", "id": "x"}],
    }
    conversation = request(json.dumps(body).encode())
    found = references(conversation.elements)
    assert [name for name, _ in found] == ["fc_1", "x"]
    call = element(CALL)
    read = with_references(conversation, {found[0][1].raw: named_by(found[0][1], call)})
    assert read.elements[1].calls == call.calls and read.elements[1].hash == call.hash
    assert read.elements[1].raw == found[0][1].raw and read.elements[1].body_hash == found[0][1].body_hash
    assert read.is_opaque  # the other one is still unknown
    output = element({"type": "mcp_call", "id": "x", "name": "n", "arguments": "{}", "output": "long"})
    both = with_references(read, {found[1][1].raw: named_by(found[1][1], output)})
    assert not both.is_opaque and both.elements[2].texts == ()  # nothing in a reference can be replaced
    assert encoded(both) == json.dumps(body).encode()


def test_names() -> None:
    assert provider_id(b'{"id":"fc_1"}') == "fc_1"
    assert provider_id(b'"text"') == provider_id(b'{"id":5}') == provider_id(b"{}") == ""
