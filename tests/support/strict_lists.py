"""What a strict provider says to a list that does not pair up: the words of real ones. Independent of the product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ORPHAN = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)
NO_CALL = "No tool call found for function call output with call_id {}."
NO_OUTPUT = "No tool output found for function call {}."
LONE_REASONING = "Item '{}' of type 'reasoning' was provided without its required following item."
WITHOUT_REASONING = "Item '{}' of type '{}' was provided without its required 'reasoning' item: '{}'."
DUPLICATE = "Duplicate item found with id {}. Remove duplicate items from your input and try again."

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


def responses_fault(items: Sequence[Item], reasoning_of: Mapping[str, str]) -> str | None:
    """The message of the 400 for a Responses list. `reasoning_of`: which item id was made behind which reasoning."""
    ids = [item["id"] for item in items if item.get("id")]
    for number, item_id in enumerate(ids):
        if item_id in ids[:number]:
            return DUPLICATE.format(item_id)
    called: set[str] = set()
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            called.add(item["call_id"])
        elif kind == "function_call_output" and item["call_id"] not in called:
            return NO_CALL.format(item["call_id"])
        elif kind == "reasoning":
            follower = items[index + 1] if index + 1 < len(items) else {}
            if follower.get("type") != "function_call" and follower.get("role") != "assistant":
                return LONE_REASONING.format(item["id"])
        needed = reasoning_of.get(item.get("id") or "")
        if needed and needed not in (earlier.get("id") for earlier in items[:index]):
            return WITHOUT_REASONING.format(item["id"], kind, needed)
    answered = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    for call_id in called - answered:
        return NO_OUTPUT.format(call_id)
    return None
