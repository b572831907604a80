"""Conversations as OpenAI chat requests, one a line: ready to fine-tune on or to send again. Originals only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import orjson

from proxy.core.filters import Filters
from proxy.store import archive_joins
from proxy.store.archive import Archive, ChainLine
from proxy.store.seals import STRAY

_PAGE = 64
_TOOL_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_CALLS = ("function_call", "custom_tool_call")


def write(
    archive: Archive, filters: Filters, *, on_rows: Callable[[int], None] = lambda rows: None
) -> Iterator[bytes]:  # fmt: skip
    """A line for each conversation that has a path: its newest top-level branch, from the first word to the last."""
    for chain in archive.all_chains(filters):
        if not chain.id.startswith(STRAY):
            yield from _conversation(archive, chain)
        on_rows(chain.length)


def _conversation(archive: Archive, chain: ChainLine) -> Iterator[bytes]:
    path = archive.read(partial(archive_joins.leaf_path, conversation=chain.id))
    if not path:
        return
    yield b'{"messages":['
    start = b""
    for message in as_chat(_originals(archive, chain.id, path)):
        yield start + message
        start = b","
    yield b"]"
    if tools := _tools(archive.read(partial(archive_joins.last_frame, conversation=chain.id))):
        yield b',"tools":' + orjson.dumps(tools)
    yield b"}\n"


def _originals(archive: Archive, conversation: str, path: Sequence[str]) -> Iterator[bytes]:
    for start in range(0, len(path), _PAGE):
        ids = path[start : start + _PAGE]
        yield from archive.read(partial(archive_joins.originals, conversation=conversation, ids=ids))


def as_chat(elements: Iterable[bytes]) -> Iterator[bytes]:
    """Chat messages as they came; items of the Responses format as the chat messages that say the same."""
    calls: list[dict[str, Any]] = []
    for raw in elements:
        element = _loaded(raw)
        kind = element.get("type", "")
        if kind in _CALLS:
            calls.append(_call(element))
            continue
        if calls:
            yield orjson.dumps({"role": "assistant", "content": None, "tool_calls": calls})
            calls = []
        if kind in _TOOL_OUTPUTS:
            content = element.get("output", "")
            yield orjson.dumps(
                {"role": "tool", "tool_call_id": element.get("call_id", ""), "content": _content(content)}
            )
        elif kind == "message":
            yield orjson.dumps({"role": element.get("role", "user"), "content": _content(element.get("content"))})
        elif "role" in element:
            yield raw
    if calls:
        yield orjson.dumps({"role": "assistant", "content": None, "tool_calls": calls})


def _loaded(raw: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _call(element: dict[str, Any]) -> dict[str, Any]:
    arguments = element.get("arguments", element.get("input", ""))
    function = {"name": element.get("name", ""), "arguments": arguments}
    return {"id": element.get("call_id", ""), "type": "function", "function": function}


def _content(content: Any) -> Any:
    """Text parts as one text; anything else as chat's own parts."""
    if not isinstance(content, list):
        return content
    parts = [_part(part) for part in content if isinstance(part, dict)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.get("text", "")}
    if part.get("type") == "input_image":
        return {"type": "image_url", "image_url": {"url": part.get("image_url", "")}}
    return {**part, "type": str(part.get("type", ""))}


def _tools(frame: bytes) -> list[dict[str, Any]]:
    """The tools of the last request, in chat's spelling."""
    tools = _loaded(frame).get("tools") or []
    found = []
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict) and tool.get("type") == "function" and "function" not in tool:
            tool = {"type": "function", "function": {key: tool[key] for key in tool if key != "type"}}
        found.append(tool)
    return found
