"""Messages that the library writes, in the Chat Completions format, and stored messages as values to send. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.core.texts import clip
from proxy.errors import InputError
from proxy.wire import jsonbytes

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_SUCH = 'Give a mapping such as {"role": "user", "content": "…"}.'
_SUCH_CALLS = 'Such as [{"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}].'


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
    role, content, calls = value.get("role"), value.get("content"), value.get("tool_calls")
    if not isinstance(role, str) or not role:
        raise InputError("a message needs a role", hint=_SUCH)
    if role not in ROLES:
        raise InputError(f"a message's role is one of {', '.join(ROLES)}, not {clip(repr(role), 80)}", hint=_SUCH)
    if content is None and role != "assistant":
        raise InputError(f"a message of the role {role} needs content", hint=_SUCH)
    if content is not None and not isinstance(content, str | list):
        what = type(content).__name__
        raise InputError(f"a message's content is a text or a list of parts, not {what}", hint=_SUCH)
    if calls is not None and not (isinstance(calls, list) and all(isinstance(one, Mapping) for one in calls)):
        raise InputError(f"tool_calls is a list of mappings, not {clip(repr(calls), 80)}", hint=_SUCH_CALLS)
    if role == "tool" and not isinstance(value.get("tool_call_id"), str):
        raise InputError("a message of the role tool needs its tool_call_id", hint="That of the call it answers.")
    try:
        return jsonbytes.dumps(dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"a message must be JSON: {error}", hint="Texts, numbers, lists and mappings alone."
        ) from error


def to_send(raws: Sequence[bytes]) -> tuple[dict[str, Any], ...]:
    """List elements as values for a client library."""
    return tuple(jsonbytes.loads(raw) for raw in raws)
