"""What a strict provider says to a list that does not pair up: the words of real ones. Independent of the product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
Item = Mapping[str, Any]


def chat_fault(messages: Sequence[Item]) -> tuple[str, str] | None:
    """Message and param of the 400 for a chat list, or None: it is valid."""
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return ORPHAN, f"messages.[{index}].role"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return UNANSWERED + ", ".join(open_calls), f"messages.[{index}].role"
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        if not open_calls and message.get("content") is None:
            return "Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content"
    if open_calls:
        return UNANSWERED + ", ".join(open_calls), f"messages.[{len(messages)}].role"
    return None
