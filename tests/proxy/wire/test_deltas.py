import json
import time
from typing import Any

from proxy.wire.deltas import DeltaMessage


def build(*deltas: dict[str, Any]) -> dict[str, Any]:
    message = DeltaMessage()
    for delta in deltas:
        message.add(delta)
    return message.build()


def calls(*deltas: dict[str, Any]) -> list[tuple[Any, str, str]]:
    built = build(*({"tool_calls": [delta]} for delta in deltas))["tool_calls"]
    return [(c.get("id"), c["function"].get("name", ""), c["function"].get("arguments", "")) for c in built]


def fn(name: str | None = None, arguments: str | None = None) -> dict[str, Any]:
    return {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}


def test_text_grows_and_the_role_stays() -> None:
    message = build({"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}, {})
    assert message == {"role": "assistant", "content": "ab"}


def test_what_bears_content() -> None:
    message = DeltaMessage()
    silent: list[dict[str, Any]] = [
        {"role": "assistant"},
        {"role": "assistant", "content": ""},
        {"content": None},
        {"reasoning_details": []},
        {},
    ]
    assert not any(message.add(delta) for delta in silent)
    assert message.is_empty
    for delta in ({"content": "x"}, {"reasoning_content": "x"}, {"refusal": "x"}, {"tool_calls": [{"index": 0}]}):
        assert DeltaMessage().add(delta)


def test_pieces_of_one_call_by_index() -> None:
    found = calls(
        {"index": 0, "id": "A", "type": "function", "function": fn("f", "")},
        {"index": 0, "function": fn(arguments='{"x"')},
        {"index": 1, "id": "B", "function": fn("g", "{}")},
        {"index": 0, "id": "", "function": fn(arguments=":1}")},
    )
    assert found == [("A", "f", '{"x":1}'), ("B", "g", "{}")]


def test_an_id_says_more_than_an_index() -> None:
    found = calls(
        {"index": 0, "id": "A", "function": fn("f", '{"a"')},
        {"index": 0, "function": fn(arguments=":1}")},
        {"index": 0, "id": "B", "function": fn("f", '{"b"')},
        {"index": 0, "function": fn(arguments=":2}")},
        {"index": 0, "id": "A", "function": fn(arguments=" ")},
    )
    assert found == [("A", "f", '{"a":1} '), ("B", "f", '{"b":2}')]


def test_calls_without_index_and_arguments_before_the_name() -> None:
    found = calls(
        {"id": "A", "function": fn(arguments='{"a":')},
        {"function": fn(arguments="1}")},
        {"function": fn("f")},
        {"id": "B", "function": fn(arguments="{}")},
        {"function": fn("g")},
    )
    assert found == [("A", "f", '{"a":1}'), ("B", "g", "{}")]


def test_calls_without_index_and_id() -> None:
    found = calls(
        {"function": fn(arguments='{"a":')},
        {"function": fn(arguments="1}")},
        {"function": fn("f")},
        {"function": fn(arguments='{"b":2}')},
        {"function": fn("f")},
    )
    assert [(name, arguments) for _, name, arguments in found] == [("f", '{"a":1}'), ("f", '{"b":2}')]


def test_a_name_in_pieces_grows_and_a_name_sent_again_does_not() -> None:
    pieces = ({"index": 0, "id": "A", "function": fn("re", "")}, {"index": 0, "function": fn("ad")})
    assert calls(*pieces, {"index": 0, "function": fn("read", "{}")}) == [("A", "read", "{}")]


def test_whole_calls_in_one_delta_are_told_apart_by_their_place() -> None:
    message = build({"tool_calls": [{"function": fn("f", "{}")}, {"function": fn("f", "{}")}]})
    assert len(message["tool_calls"]) == 2
    same_index = build(
        {"tool_calls": [{"index": 0, "function": fn("f", "{}")}]},
        {"tool_calls": [{"index": 0, "function": fn("g", "{}")}]},
    )
    assert [call["function"]["name"] for call in same_index["tool_calls"]] == ["f", "g"]


def test_unknown_keys_survive_at_every_depth() -> None:
    message = build(
        {"tool_calls": [{"index": 0, "id": "A", "function": {**fn("f", ""), "x": {"y": [1]}}}]},
        {"tool_calls": [{"index": 0, "extra_content": {"google": {"thought_signature": "sig"}}, "n": 1}]},
        {"reasoning_content": "think", "annotations": [{"u": 1}], "new": {"a": None, "b": True}},
        {"reasoning_content": "ing", "annotations": [{"u": 2}]},
    )
    call = message["tool_calls"][0]
    assert call["extra_content"] == {"google": {"thought_signature": "sig"}}
    assert (call["n"], call["function"]["x"]) == (1, {"y": [1]})
    assert "index" not in call
    assert message["reasoning_content"] == "thinking"
    assert message["annotations"] == [{"u": 1}, {"u": 2}]
    assert message["new"] == {"a": None, "b": True}
    assert message["content"] is None


def test_reasoning_details_grow_by_index_and_type() -> None:
    message = build(
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a", "format": "v1"}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "b", "format": "v1"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 0, "data": "zz"}]},
    )
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "ab", "format": "v1"},
        {"type": "reasoning.encrypted", "index": 0, "data": "zz"},
    ]


def test_custom_and_legacy_calls() -> None:
    message = build(
        {"tool_calls": [{"index": 0, "id": "A", "type": "custom", "custom": {"name": "sh", "input": "l"}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "s"}}]},
        {"function_call": fn("f", "{")},
        {"function_call": fn(arguments="}")},
    )
    assert message["tool_calls"] == [{"id": "A", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]
    assert message["function_call"] == {"name": "f", "arguments": "{}"}


def test_long_streams_are_linear() -> None:
    message = DeltaMessage()
    started = time.process_time()
    for _ in range(100_000):
        message.add({"content": "word "})
        message.add({"tool_calls": [{"function": {"arguments": "[1],"}}]})
    assert len(json.dumps(message.build())) > 900_000
    assert time.process_time() - started < 5
