"""Whole Responses replies and their event streams, as a provider sends them. Values only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

PIECE = 40


def message_item(item_id: str, text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def call_item(item_id: str, call_id: str, name: str, arguments: str) -> dict[str, Any]:
    base = {"id": item_id, "type": "function_call", "status": "completed", "call_id": call_id}
    return {**base, "name": name, "arguments": arguments}


def reasoning_item(item_id: str, encrypted: str | None = None) -> dict[str, Any]:
    item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": []}
    return item if encrypted is None else {**item, "encrypted_content": encrypted}


def response(
    response_id: str, output: Sequence[dict[str, Any]], usage: dict[str, Any] | None, **fields: Any
) -> dict[str, Any]:
    """A response object; without usage it is still running."""
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_790_000_000,
        "status": "completed" if usage else "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "scripted-1",
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
        **fields,
    }


def usage(tokens_in: int, tokens_out: int, cached: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens_in + tokens_out,
    }


def wire_events(values: Sequence[dict[str, Any]]) -> list[bytes]:
    """Numbered and named, one event each."""
    return [
        f"event: {value['type']}\ndata: {json.dumps({**value, 'sequence_number': number})}\n\n".encode()
        for number, value in enumerate(values)
    ]


def reply_events(whole: dict[str, Any]) -> list[bytes]:
    """The stream that ends with this response."""
    start = {**whole, "status": "in_progress", "output": [], "usage": None}
    values = [{"type": "response.created", "response": start}, {"type": "response.in_progress", "response": start}]
    for index, item in enumerate(whole["output"]):
        values += _item_events(index, item)
    values.append({"type": "response.completed", "response": whole})
    return wire_events(values)


def failed_events(response_id: str, code: str, message: str) -> list[bytes]:
    """An error inside a 200 stream, before any content."""
    start = response(response_id, [], None)
    failed = {**start, "status": "failed", "error": {"code": code, "message": message}}
    error = {"type": "invalid_request_error", "code": code, "message": message, "param": "input"}
    return wire_events(
        [
            {"type": "response.created", "response": start},
            {"type": "response.in_progress", "response": start},
            {"type": "error", **error, "error": error},
            {"type": "response.failed", "response": failed},
        ]
    )


def _item_events(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {"output_index": index, "item_id": item["id"]}
    match item["type"]:
        case "message":
            yield _added(index, {**item, "status": "in_progress", "content": []})
            part = item["content"][0]
            inner = {**place, "content_index": 0}
            yield {"type": "response.content_part.added", **inner, "part": {**part, "text": ""}}
            for piece in _pieces(part["text"]):
                yield {"type": "response.output_text.delta", **inner, "delta": piece, "logprobs": []}
            yield {"type": "response.output_text.done", **inner, "text": part["text"], "logprobs": []}
            yield {"type": "response.content_part.done", **inner, "part": part}
        case "function_call":
            yield _added(index, {**item, "status": "in_progress", "arguments": ""})
            for piece in _pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, **done}
        case _:
            yield _added(index, item)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]
