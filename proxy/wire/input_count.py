"""The request by which a Responses provider counts the input of another one, and its answer."""

from __future__ import annotations

from proxy.wire import jsonbytes
from proxy.wire.errors import load

_COUNTED = frozenset(
    {
        "conversation", "input", "instructions", "model", "parallel_tool_calls", "personality", "previous_response_id",
        "reasoning", "text", "tool_choice", "tools", "truncation",
    }
)  # fmt: skip
"""What says something of the input. The other fields are no parameters there."""


def count_request(body: bytes) -> bytes:
    """The same input, every value with its own bytes. Raises `NotUnderstoodError`."""
    members, _ = jsonbytes.walk_object(body)
    kept = {member.key: body[member.start : member.end] for member in members if member.key in _COUNTED}
    return b"{" + b",".join(jsonbytes.dumps(key) + b":" + value for key, value in kept.items()) + b"}"


def read_count(body: bytes) -> int | None:
    """The count; None when the answer has none."""
    value = load(body)
    found = value.get("input_tokens") if isinstance(value, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None
