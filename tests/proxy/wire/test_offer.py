"""When one more tool may stand in a request, and that putting it there touches no other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.wire.base import FrameEdits, Piece
from proxy.wire.chat import ChatFormat
from proxy.wire.offer import chat_tool, responses_tool
from proxy.wire.responses import ResponsesFormat

TOOL = {"type": "function", "function": {"name": "read", "parameters": {}}}


TOOL_ITEM = {"type": "function", "name": "read"}


def room(**fields: Any) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [TOOL], **fields}
    return ChatFormat().decode(json.dumps(body).encode(), {}).tool_room


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, "open"),
        ({"tool_choice": "auto"}, "open"),
        ({"tool_choice": "required"}, "open"),
        ({"parallel_tool_calls": False}, "open"),
        ({"response_format": {"type": "text"}}, "open"),
        ({"tool_choice": "none"}, "kept"),
        ({"tool_choice": {"type": "function", "function": {"name": "read"}}}, "kept"),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}, "kept"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "closed"),
        ({"response_format": {"type": "json_object"}}, "closed"),
        ({"guided_json": {"a": 1}}, "closed"),
        ({"modalities": ["text", "audio"]}, "closed"),
        ({"tools": []}, "closed"),
        ({"tools": None}, "closed"),
        ({"tools": [TOOL] * 128}, "closed"),
        ({"functions": [{"name": "f"}]}, "closed"),
    ],
)
def test_room_for_a_tool(fields: dict[str, Any], wanted: str) -> None:
    assert room(**fields) == wanted


def test_responses_reads_its_own_shapes() -> None:
    def read(**fields: Any) -> Any:
        body = {"model": "m", "input": [{"role": "user", "content": "x"}], "tools": [TOOL_ITEM], **fields}
        return ResponsesFormat().decode(json.dumps(body).encode(), {})

    assert read().tool_room == "open" and read().tool_names == {"read"}
    assert read(text={"format": {"type": "text"}, "verbosity": "low"}).tool_room == "open"
    assert read(text={"verbosity": "low"}).tool_room == "open"
    assert read(text={"format": {"type": "json_schema", "name": "n", "schema": {}}}).tool_room == "closed"
    assert read(input="x").tool_room == "closed"
    namespace = {"type": "namespace", "name": "ns", "tools": [{"type": "custom", "name": "inner"}]}
    assert read(tools=[namespace]).tool_names == {"ns", "inner"}


def test_names_of_every_kind_of_tool() -> None:
    tools = [TOOL, {"type": "custom", "custom": {"name": "sh"}}]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools}).encode()
    assert ChatFormat().decode(body, {}).tool_names == {"read", "sh"}


@pytest.mark.parametrize("end", ["]", " \n ]"])
def test_the_definition_goes_behind_the_last_tool_and_all_else_stays(end: str) -> None:
    tools = f'[ {{"type" : "function","function":{{"name":"read","x":1.0e2}}}}{end}'
    body = f'{{"tools":{tools}, "messages" : [{{"role":"user","content":"x"}}],"model":"m"}}'.encode()
    fmt = ChatFormat()
    conversation = fmt.decode(body, {})
    pieces = [Piece(conversation.elements[0].raw, 0)]
    out = fmt.encode(conversation, pieces, FrameEdits(tool=fmt.tool("ctx_expand"), forbid_calls=True))
    added = b"," + chat_tool("ctx_expand")
    assert out.replace(added, b"").replace(b',"tool_choice":"none"', b"") == body
    assert [tool["function"]["name"] for tool in json.loads(out)["tools"]] == ["read", "ctx_expand"]
    assert json.loads(out)["tool_choice"] == "none"


def test_a_choice_that_was_made_is_replaced() -> None:
    fmt = ChatFormat()
    body = (
        b'{"tool_choice" : "auto","tools":[{"type":"function","function":{"name":"r"}}],"messages":[{"role":"user"}]}'
    )
    conversation = fmt.decode(body, {})
    out = fmt.encode(conversation, [Piece(conversation.elements[0].raw, 0)], FrameEdits(forbid_calls=True))
    assert out == body.replace(b'"auto"', b'"none"')


def test_the_definitions_are_the_same_bytes_every_time_and_short() -> None:
    for make in (chat_tool, responses_tool):
        assert make("ctx_expand") == make("ctx_expand") and len(make("ctx_expand")) < 800
    assert json.loads(responses_tool("ctx_expand"))["strict"] is False
    assert json.loads(ChatFormat().result("c", "t")) == {"role": "tool", "tool_call_id": "c", "content": "t"}
    wanted = {"type": "function_call_output", "call_id": "c", "output": "t"}
    assert json.loads(ResponsesFormat().result("c", "t")) == wanted
