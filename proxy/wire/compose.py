"""Messages that the library writes, in the Chat Completions format, and stored messages as values to send. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.errors import InputError
from proxy.wire import jsonbytes


def message(role: str, content: str) -> bytes:
    """A plain message."""
    return jsonbytes.dumps({"role": role, "content": content})


def call(call_id: str, tool: str, arguments: Mapping[str, str]) -> bytes:
    """An assistant message that makes one call."""
    function = {"name": tool, "arguments": jsonbytes.dumps(dict(arguments)).decode()}
    made = {"id": call_id, "type": "function", "function": function}
    return jsonbytes.dumps({"role": "assistant", "content": None, "tool_calls": [made]})


def result(call_id: str, text: str) -> bytes:
    """What a call returned."""
    return jsonbytes.dumps({"role": "tool", "tool_call_id": call_id, "content": text})


def given(value: Mapping[str, Any]) -> bytes:
    """A whole message as an application has it. Raises `InputError` for what is none."""
    role = value.get("role")
    if not isinstance(role, str) or not role:
        raise InputError("a message needs a role", hint='Give a mapping such as {"role": "user", "content": "…"}.')
    try:
        return jsonbytes.dumps(dict(value))
    except (TypeError, ValueError) as error:
        raise InputError(f"a message must be JSON: {error}") from error


def to_send(raws: Sequence[bytes]) -> tuple[dict[str, Any], ...]:
    """List elements as values for a client library."""
    return tuple(jsonbytes.loads(raw) for raw in raws)
