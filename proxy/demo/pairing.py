"""What a strict provider refuses about a chat list, in the words that providers use. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error object's fields."""

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400


def check_pairing(messages: Sequence[Any]) -> Refusal | None:
    """None for a valid list: each call answered at once, in the messages right after it; no result without a call."""
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or "role" not in message:
            return Refusal(f"Missing required parameter: 'messages[{index}].role'.", f"messages[{index}].role")
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return Refusal(ORPHAN, f"messages.[{index}].role")
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return Refusal(UNANSWERED + ", ".join(waiting), f"messages.[{index}].role")
        if message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or []]
            if not waiting and message.get("content") is None:
                text = "Invalid value for 'content': expected a string, got null."
                return Refusal(text, f"messages.[{index}].content")
    if waiting:
        return Refusal(UNANSWERED + ", ".join(waiting), f"messages.[{len(messages)}].role")
    return None
