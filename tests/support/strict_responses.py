"""What a strict provider says to a Responses list that does not hold together: the words of real ones.

Independent of the product. `Made` is what the provider remembers of the items that it issued itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NO_CALL = "No tool call found for {} output with call_id {}."
NO_OUTPUT = "No tool output found for {} {}."
LONE_REASONING = "Item '{}' of type 'reasoning' was provided without its required following item."
WITHOUT_REASONING = "Item '{}' of type '{}' was provided without its required 'reasoning' item: '{}'."
DUPLICATE = "Duplicate item found with id {}. Remove duplicate items from your input and try again."
NOT_FOUND = (
    "Item with id '{}' not found. Items are not persisted when `store` is set to false. "
    "Try again with `store` set to true, or remove this item from your input."
)
TOO_LONG = "Invalid 'input[{}].content': array too long. Expected an array with maximum length 0, but got length {}."
ALTERED = "The encrypted content {} could not be verified."
TRIGGER = "Invalid 'input': 'compaction_trigger' must be the final input item."
NO_TOOLS = "MCP call '{}' was provided without its required 'mcp_list_tools' item."
EMPTY = "Invalid 'input[{}].output': empty string."

Item = Mapping[str, Any]

ANSWERS = {
    "function_call_output": ("function_call", "function call"),
    "custom_tool_call_output": ("custom_tool_call", "custom tool call"),
    "computer_call_output": ("computer_call", "computer call"),
    "local_shell_call_output": ("local_shell_call", "local shell call"),
    "shell_call_output": ("shell_call", "shell call"),
    "apply_patch_call_output": ("apply_patch_call", "apply patch call"),
    "tool_search_output": ("tool_search_call", "tool search call"),
    "program_output": ("program", "program"),
    "mcp_approval_response": ("mcp_approval_request", "approval request"),
}
"""Which call an output answers, and how the provider names it."""
CALLS = dict(ANSWERS.values())
FOLLOWERS = {
    *CALLS,
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
}
KEYS = {"local_shell_call_output": "id", "mcp_approval_response": "approval_request_id"}
"""Where an output names its call, when not in `call_id`."""
BY_ID = frozenset({"local_shell_call", "mcp_approval_request"})
"""Calls that are named by their own id."""


@dataclass(slots=True)
class Made:
    """Items that the provider made: each one's reasoning, and what was sealed in which reasoning."""

    reasoning_of: dict[str, str] = field(default_factory=dict)
    sealed: dict[str, str] = field(default_factory=dict)

    def add(self, output: Sequence[Item]) -> None:
        """Take note of a reply's items."""
        behind = ""
        for item in output:
            if item["type"] == "reasoning":
                behind = item["id"]
                if item.get("encrypted_content"):
                    self.sealed[item["id"]] = item["encrypted_content"]
            elif behind and item.get("id"):
                self.reasoning_of[item["id"]] = behind


def responses_fault(items: Sequence[Item], made: Mapping[str, str] | Made, *, is_adjacent: bool = False) -> str | None:
    """The message of the 400 for a list, or None: it is valid.

    `made` may be just a mapping from item id to reasoning id. `is_adjacent`: also refuse anything
    but calls and outputs between a call and its output, as one provider does.
    """
    if not isinstance(made, Made):
        made = Made(dict(made))
    ids = [item["id"] for item in items if item.get("id") and item.get("type") not in KEYS]
    for number, item_id in enumerate(ids):
        if item_id in ids[:number]:
            return DUPLICATE.format(item_id)
    return _pairing_fault(items) or _reasoning_fault(items, made) or _shape_fault(items) or (
        _adjacency_fault(items) if is_adjacent else None
    )  # fmt: skip


def _kind(item: Item) -> str:
    return item.get("type") or ("message" if "role" in item else "item_reference")


def _name_of(item: Item) -> str:
    return str(item["id"] if _kind(item) in BY_ID else item["call_id"])


def _pairing_fault(items: Sequence[Item]) -> str | None:
    waiting: dict[tuple[str, str], int] = {}
    for item in items:
        kind = _kind(item)
        if kind in CALLS:
            key = (kind, _name_of(item))
            waiting[key] = waiting.get(key, 0) + 1
        elif kind in ANSWERS:
            call, name = ANSWERS[kind]
            answered = str(item[KEYS.get(kind, "call_id")])
            if not waiting.get((call, answered)):
                return NO_CALL.format(name, answered)
            waiting[(call, answered)] -= 1
    for (call, answered), count in waiting.items():
        if count:
            return NO_OUTPUT.format(CALLS[call], answered)
    return None


def _reasoning_fault(items: Sequence[Item], made: Made) -> str | None:
    for index, item in enumerate(items):
        kind = _kind(item)
        if kind == "reasoning":
            if item["id"] in made.sealed and made.sealed[item["id"]] != item.get("encrypted_content"):
                return ALTERED.format(item["id"])
            following = items[index + 1] if index + 1 < len(items) else {}
            follower = _kind(following) if following else ""
            if follower not in FOLLOWERS and follower != "reasoning" and following.get("role") != "assistant":
                return LONE_REASONING.format(item["id"])
        needed = made.reasoning_of.get(item.get("id") or "")
        if needed and needed not in (earlier.get("id") for earlier in items[:index]):
            return WITHOUT_REASONING.format(item["id"], kind, needed)
    return None


def _shape_fault(items: Sequence[Item]) -> str | None:
    servers: set[str] = set()
    for index, item in enumerate(items):
        kind = _kind(item)
        if kind == "compaction_trigger" and index + 1 < len(items):
            return TRIGGER
        if kind == "reasoning" and item.get("content"):
            return TOO_LONG.format(index, len(item["content"]))
        if kind == "mcp_list_tools":
            servers.add(item["server_label"])
        if kind == "mcp_call" and item["server_label"] not in servers:
            return NO_TOOLS.format(item["id"])
        if kind in ANSWERS and item.get("output") == "":
            return EMPTY.format(index)
    return None


def _adjacency_fault(items: Sequence[Item]) -> str | None:
    """Nothing but other calls and outputs may stand between a call and its output."""
    waiting: list[str] = []
    for item in items:
        kind = _kind(item)
        if kind in CALLS:
            waiting.append(_name_of(item))
        elif kind in ANSWERS:
            waiting.remove(str(item[KEYS.get(kind, "call_id")]))
        elif waiting:
            return NO_OUTPUT.format("tool call", waiting[0])
    return None
