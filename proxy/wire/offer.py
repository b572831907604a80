"""May one more tool stand in this request, and how it is put there. The client's own tools keep their bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from proxy.core.model import ToolRoom
from proxy.wire import jsonbytes
from proxy.wire.frame import Fields

MOST_TOOLS = 127
"""Providers refuse a list of more than 128 tools."""

_FORMAT_KEYS = (
    "response_format", "text", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
    "grammar", "json_schema", "audio", "function_call", "functions",
)  # fmt: skip
"""Fields by which the shape of the answer is prescribed, or calls are made in the old way."""

DESCRIPTION = (
    "Returns original text behind an id that stands in this conversation in place of text left out, "
    "whole or in part. Call it whenever you need what was left out."
)
PARAMETERS = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The id as it stands in the conversation."},
        "lines": {"type": "string", "description": "Only these lines, as 10-40."},
        "query": {"type": "string", "description": "Only lines that hold this text, with the lines around them."},
        "max_tokens": {"type": "integer", "description": "Most tokens to return."},
    },
    "required": ["id"],
}


def chat_tool(name: str) -> bytes:
    """The definition as Chat Completions takes it; the same bytes for the same name, always."""
    function = {"name": name, "description": DESCRIPTION, "parameters": PARAMETERS}
    return jsonbytes.dumps({"type": "function", "function": function})


def responses_tool(name: str) -> bytes:
    """The definition as Responses takes it: there, strict is the default and would make every argument required."""
    head = {"type": "function", "name": name, "description": DESCRIPTION}
    return jsonbytes.dumps({**head, "parameters": PARAMETERS, "strict": False})


def tool_room(fields: Fields) -> tuple[ToolRoom, frozenset[str]]:
    """Whether one more tool may be offered, and the names that are taken."""
    raw = fields.raw
    rest = tuple(raw.get(key, b"") for key in _FORMAT_KEYS)
    return _tool_room(raw.get("tools", b""), raw.get("tool_choice", b""), raw.get("modalities", b""), rest)


@lru_cache(maxsize=128)  # an agent repeats its tools and settings on every call
def _tool_room(
    tools: bytes, choice: bytes, modalities: bytes, rest: tuple[bytes, ...]
) -> tuple[ToolRoom, frozenset[str]]:
    try:
        listed = jsonbytes.loads(tools) if tools else None
        chosen = jsonbytes.loads(choice) if choice else None
        shapes = [jsonbytes.loads(value) for value in rest if value]
    except ValueError:
        return "closed", frozenset()
    names = frozenset(_names(listed)) if isinstance(listed, list) else frozenset[str]()
    if not isinstance(listed, list) or not listed or len(listed) > MOST_TOOLS or b"audio" in modalities:
        return "closed", names
    if any(_prescribes(shape) for shape in shapes):
        return "closed", names
    return "open" if chosen in (None, "auto", "required") else "kept", names


def _names(tools: list[Any]) -> list[str]:
    found: list[str] = []
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        for place in (tool, tool.get("function"), tool.get("custom")):
            if isinstance(place, dict) and isinstance(place.get("name"), str):
                found.append(place["name"])
        if isinstance(tool.get("tools"), list):
            found += _names(tool["tools"])
    return found


def _prescribes(shape: Any) -> bool:
    """Does this value ask for anything but plain text?"""
    if isinstance(shape, dict) and isinstance(shape.get("format"), dict):
        shape = shape["format"]
    if isinstance(shape, dict):
        return shape.get("type") != "text" if "type" in shape else "verbosity" not in shape and bool(shape)
    return bool(shape)
