"""The same talk in both wire formats is one chain, one set of calls, one set of maskable texts."""

import json
from typing import Any

from proxy.core.canonical import chain
from proxy.core.model import Conversation
from proxy.wire.chat import ChatFormat
from proxy.wire.responses import ResponsesFormat

IMAGE = "data:image/png;base64,iVBORw0KGgo="


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": "find it"},
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "hm",
            "tool_calls": [call("call_1", "grep", '{"q": "x"}'), call("call_2", "read", '{"p":1.0}')],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a\nb"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "Error: gone"}]},
        {"role": "assistant", "content": None, "tool_calls": [call("call_3", "read", "{}")]},
        {"role": "tool", "tool_call_id": "call_3", "content": "c"},
        {"role": "developer", "content": "mind the time"},
        {"role": "assistant", "content": "Found."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "and this?"}, {"type": "image_url", "image_url": {"url": IMAGE}}],
        },
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "instructions": "be good",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "find it"}]},
        {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Q"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "grep", "arguments": '{"q":"x"}'},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "read", "arguments": '{"p": 1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "a\r\nb\n"},
        {"type": "function_call_output", "call_id": "call_2", "output": "Error: gone"},
        {"type": "function_call", "call_id": "call3", "name": "read", "arguments": ""},
        {"type": "function_call_output", "call_id": "call_3", "output": [{"type": "input_text", "text": "c"}]},
        {"role": "system", "content": "mind the time"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Found."}],
            "status": "completed",
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "and this?"}, {"type": "input_image", "image_url": IMAGE}],
        },
    ],
}


def both() -> tuple[Conversation, Conversation]:
    chat = ChatFormat().decode(json.dumps(CHAT).encode(), {})
    return chat, ResponsesFormat().decode(json.dumps(RESPONSES).encode(), {})


def test_the_chains_are_equal() -> None:
    chat, responses = both()
    one, two = (chain(conversation.elements[conversation.head :]) for conversation in (chat, responses))
    assert [atom.kind for _, atom in one] == [
        "user",
        "call",
        "call",
        "result",
        "result",
        "call",
        "result",
        "sys",
        "asst",
        "user",
    ]
    assert [(atom.kind, atom.hash, atom.anchor) for _, atom in one] == [
        (atom.kind, atom.hash, atom.anchor) for _, atom in two
    ]


def test_calls_results_and_failures_are_equal() -> None:
    chat, responses = both()
    assert [c.name for e in chat.elements for c in e.calls] == [c.name for e in responses.elements for c in e.calls]
    results = [[e for e in conversation.elements if e.kind == "tool_result"] for conversation in (chat, responses)]
    assert [e.answers for e in results[0]] == [e.answers for e in results[1]] == ["call_1", "call_2", "call_3"]
    assert [e.is_failed for e in results[0]] == [e.is_failed for e in results[1]] == [False, True, False]
    assert [e.hash for e in results[0]] == [e.hash for e in results[1]]
    assert [sum(e.flat_tokens for e in c.elements) for c in (chat, responses)] == [1100, 1100]


def test_a_changed_word_is_another_chain() -> None:
    changed = json.loads(json.dumps(CHAT))
    changed["messages"][3]["content"] = "a\nB"
    one = chain(ChatFormat().decode(json.dumps(changed).encode(), {}).elements[1:])
    two = chain(both()[0].elements[1:])
    differing = [index for index, (a, b) in enumerate(zip(one, two, strict=True)) if a[1].hash != b[1].hash]
    assert differing == [3]
