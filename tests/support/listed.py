"""Items of a list as makers of shorter forms see them: calls with their results, in few words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from proxy.core.grouping import pair_results
from proxy.core.offers import Listed, Maker, Note
from proxy.wire.chat import ChatFormat
from tests.support import builders


def listed(messages: Sequence[Any]) -> list[Listed]:
    """Every message with the call that it answers; ids are `m0`, `m1` and so on."""
    elements = ChatFormat().decode(builders.body_bytes({"model": "m", "messages": list(messages)}), {}).elements
    sites = pair_results(elements)
    return [
        Listed(f"m{index}", index, element, sites[index].call, sites[index].key_argument)
        if index in sites
        else Listed(f"m{index}", index, element)
        for index, element in enumerate(elements)
    ]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call(number: int, tool: str, text: str, **arguments: Any) -> list[dict[str, Any]]:
    """A tool call and its result."""
    made = {"name": tool, "arguments": json.dumps(arguments)}
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": made}],
    }
    return [asked, {"role": "tool", "tool_call_id": f"call_{number}", "content": text}]


def shell(number: int, command: str, text: str = "done") -> list[dict[str, Any]]:
    return call(number, "bash", text, command=command)


def notes(maker: Maker, messages: Sequence[Any]) -> dict[str, Note]:
    """What a maker says, by item."""
    return {item.id: note for item in listed(messages) if (note := maker.read(item)) is not None}
