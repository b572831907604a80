"""Chat requests for tests, in few words. Plain dictionaries as a client would build them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]


def system(text: str = "You keep the tide tables in order.", role: str = "system") -> Message:
    return {"role": role, "content": text}


def user(text: str, **extra: Any) -> Message:
    return {"role": "user", "content": text, **extra}


def parts(*texts: str, **extra: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, **extra} for text in texts]


def call(call_id: str, name: str = "look", **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def assistant(text: str | None = None, calls: Sequence[dict[str, Any]] = (), **extra: Any) -> Message:
    message: Message = {"role": "assistant", "content": text, **extra}
    if calls:
        message["tool_calls"] = list(calls)
    return message


def result(call_id: str, text: Any, **extra: Any) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": text, **extra}


def tool(name: str = "look", description: str = "Looks something up.") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def step(number: int, text: str, *, name: str = "look") -> list[Message]:
    """A call and its result, with ids that follow from `number`."""
    call_id = f"call_{number:04d}"
    return [assistant(None, [call(call_id, name, what=f"thing {number}")]), result(call_id, text)]


def long_text(number: int, size: int = 6000) -> str:
    """Text of exactly `size` characters that no other number gives."""
    line = f"row {number}: gauge {number * 37 % 101} reads {number * 7919 % 1000} mm at the outer mole\n"
    return (line * (size // len(line) + 1))[:size]


def steps(count: int, size: int = 6000, *, start: int = 0) -> list[Message]:
    """`count` calls with results of `size` characters each."""
    out: list[Message] = []
    for number in range(start, start + count):
        out += step(number, long_text(number, size))
    return out


def request(
    messages: Sequence[Message], *, model: str = "scripted-1", stream: bool = False, tools: Sequence[Any] = (),
    **extra: Any,
) -> dict[str, Any]:  # fmt: skip
    body: dict[str, Any] = {"model": model, "messages": list(messages), **extra}
    if stream:
        body["stream"] = True
    if tools:
        body["tools"] = list(tools)
    return body


def body_bytes(value: Any) -> bytes:
    """As the OpenAI SDK writes it: compact, not ASCII-escaped."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
