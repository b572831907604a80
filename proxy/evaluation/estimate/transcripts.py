"""Reads transcripts of many shapes as lists of Chat messages. The shape is known by what is in a file, not by its name.

A line a message, a request body or a list of messages (one in a file, or one a line), items of the Responses API,
session files of Codex and opencode, and our own exports in the formats `chat` and `jsonl`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from proxy.audit.exporting import write_files
from proxy.audit.reading import lines_of
from proxy.audit.restore import restore
from proxy.core.filters import Filters
from proxy.errors import ConfigError
from proxy.store.archive import Archive

ACCEPTED = (
    "Accepted: a message a line, request bodies or lists of messages (Chat Completions or Responses), session files of"
    " Codex and opencode, and undercliff export --format chat or jsonl."
)
Message = dict[str, Any]
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclass(frozen=True, slots=True)
class Transcript:
    """One talk. `skipped` counts lines that could not be read; `model` is empty where the file does not say."""

    name: str
    messages: tuple[Message, ...]
    model: str = ""
    skipped: int = 0

    @property
    def calls(self) -> int:
        """Answers of the model: parallel calls are one."""
        return sum(1 for _ in turns(self.messages))


def turns(messages: Iterable[Message]) -> Iterator[int]:
    """Where the model was asked: the place of each of its answers that has something before it."""
    for place, message in enumerate(messages):
        if message["role"] == "assistant" and place:
            yield place


def read_path(path: Path, *, is_strict: bool = False) -> list[Transcript]:
    """All talks of a file, or of the files in a folder. Raises `ConfigError` that names file and line."""
    if path.is_dir():
        found = sorted(
            Path(folder, file)
            for folder, _, files in os.walk(path)  # what cannot be read, or vanishes meanwhile, holds nothing
            for file in files
            if file.endswith((".jsonl", ".json"))
        )
        if not found:
            raise ConfigError(f"{path} holds no .jsonl or .json files", hint=ACCEPTED)
        return [one for file in found for one in read_path(file, is_strict=is_strict)]
    try:
        with path.open("rb") as file:
            return read_lines(path.name, file, is_strict=is_strict, path=path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="Check the path.") from error


def read_lines(
    name: str, lines: Iterable[bytes], *, is_strict: bool = False, path: Path | None = None
) -> list[Transcript]:
    """The talks in lines, each named after where they are from. Raises `ConfigError`."""
    documents, skipped = [], []
    for number, value in _documents(lines):
        if value is None:
            skipped.append(number)
        else:
            documents.append((number, value))
    if is_strict and skipped:
        raise ConfigError(f"{name}, line {skipped[0]} is no JSON", hint="Mend it, or leave --strict away.")
    if not documents:
        what = f"line {skipped[0]} is no JSON" if skipped else "there is nothing in it"
        raise ConfigError(f"{name} is no transcript: {what}", hint=ACCEPTED)
    first = documents[0][1]
    if isinstance(first, dict) and first.get("type") == "export" and first.get("product") == "undercliff":
        return _exported(name, path)
    found = _talks([value for _, value in documents])
    if not found:
        number, value = documents[0]
        shape = f"keys {', '.join(sorted(map(str, value))[:6])}" if isinstance(value, dict) else type(value).__name__
        raise ConfigError(f"{name}, line {number}: no conversation in this shape ({shape})", hint=ACCEPTED)
    many = len(found) > 1
    return [
        Transcript(f"{name}#{number}" if many else name, tuple(messages), model, len(skipped))
        for number, (messages, model) in enumerate(found, start=1)
    ]


def _documents(lines: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
    """(line number, document), None for a line that is none. A file may also be one document over many lines."""
    kept = [(number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip()]
    if kept and (len(kept) > 1 or kept[0][1][:1] == b"["):
        try:
            if kept[0][1] in (b"{", b"[") or kept[0][1][:1] == b"[":
                yield 1, orjson.loads(b"\n".join(line for _, line in kept))
                return
        except ValueError:
            pass  # a list a line, then
    for number, line in kept:
        try:
            yield number, orjson.loads(line)
        except ValueError:
            yield number, None


def _talks(values: list[Any]) -> list[tuple[list[Message], str]]:
    """Messages and model of each talk."""
    if all(isinstance(value, dict) and (value.get("role") in _ROLES or _is_item(value)) for value in values):
        return _one(values, "")
    if any(isinstance(value, dict) and isinstance(value.get("payload"), dict) for value in values):
        return _codex(values)
    found: list[tuple[list[Message], str]] = []
    for value in values:
        if isinstance(value, list):
            found += _one(value, "")
        elif isinstance(value, dict):
            found += _body(value)
    return _longest(found)


def _one(values: list[Any], model: str) -> list[tuple[list[Message], str]]:
    messages = as_chat(value for value in values if isinstance(value, dict))
    return [(messages, model)] if messages else []


def _body(value: Mapping[str, Any]) -> list[tuple[list[Message], str]]:
    """A request body, an opencode session, or something that holds one."""
    model = str(value.get("model") or "")
    listed = value.get("messages")
    if isinstance(listed, list) and listed and isinstance(listed[0], dict) and "parts" in listed[0]:
        return _opencode(listed)
    if isinstance(listed, list):
        return _one(listed, model)
    given = value.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if isinstance(given, list):
        start = [{"role": "system", "content": value["instructions"]}] if value.get("instructions") else []
        return _one([*start, *given], model)
    inner = value.get("request") or value.get("body")
    return _body(inner) if isinstance(inner, dict) else []


def _longest(found: list[tuple[list[Message], str]]) -> list[tuple[list[Message], str]]:
    """Requests of one talk grow: of those that continue one another the last one says it all."""
    kept: list[tuple[list[Message], str]] = []
    for messages, model in found:
        before = kept[-1][0] if kept else None
        if before is not None and len(messages) >= len(before) and messages[: len(before)] == before:
            kept[-1] = (messages, model)
        else:
            kept.append((messages, model))
    return kept


# -- Responses and Codex -------------------------------------------------------------------------------


def _is_item(value: Mapping[str, Any]) -> bool:
    kind = str(value.get("type") or "")
    return kind in ("message", "reasoning", "compaction") or kind.endswith(("_call", "_call_output"))


def _codex(values: list[Any]) -> list[tuple[list[Message], str]]:
    """A rollout file: items in envelopes, beside events that say the same again."""
    items, model = [], ""
    for value in values:
        payload = value.get("payload") if isinstance(value, dict) else None
        if not isinstance(payload, dict):
            continue
        model = str(payload.get("model") or model)
        if value.get("type") == "session_meta" and payload.get("instructions"):
            items.append({"role": "system", "content": str(payload["instructions"])})
        elif value.get("type") == "response_item":
            items.append(payload)
    return _one(items, model)


def as_chat(values: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Messages of either API as Chat messages; neighbouring calls become one message, orphans of a pair go."""
    messages: list[Message] = []
    for value in values:
        kind, role = str(value.get("type") or "message"), value.get("role")
        if kind.endswith("_call_output"):
            text = _text(value.get("output"))
            messages.append({"role": "tool", "tool_call_id": str(value.get("call_id") or ""), "content": text})
        elif kind.endswith("_call"):
            _add_call(messages, value)
        elif role in _ROLES:
            messages.append(_message(value, str(role)))
    return list(_paired(messages))


def _message(value: Mapping[str, Any], role: str) -> Message:
    if role == "tool":
        return {
            "role": "tool",
            "tool_call_id": str(value.get("tool_call_id") or ""),
            "content": _text(value.get("content")),
        }
    message: Message = {"role": "system" if role == "developer" else role, "content": _text(value.get("content"))}
    calls = value.get("tool_calls")
    if role == "assistant" and isinstance(calls, list) and calls:
        message["tool_calls"] = [_call(call) for call in calls if isinstance(call, dict)]
    return message


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") if isinstance(call.get("function"), dict) else {}
    given = function.get("arguments", "")  # type: ignore[union-attr]
    arguments = given if isinstance(given, str) else json.dumps(given)
    name = str(function.get("name") or "tool")  # type: ignore[union-attr]
    return {"id": str(call.get("id") or ""), "type": "function", "function": {"name": name, "arguments": arguments}}


def _add_call(messages: list[Message], value: Mapping[str, Any]) -> None:
    given = value.get("arguments", value.get("input", value.get("action", "")))
    arguments = given if isinstance(given, str) else json.dumps(given)
    name = str(value.get("name") or str(value.get("type")).removesuffix("_call"))
    identity = str(value.get("call_id") or value.get("id") or "")
    call = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
    if messages and messages[-1]["role"] == "assistant":
        messages[-1].setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})


def _paired(messages: list[Message]) -> Iterator[Message]:
    """Every result behind its call and every call with a result, as providers ask for."""
    answered = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.discard(message["tool_call_id"])
                yield message
            continue
        if "tool_calls" in message:
            calls = [call for call in message["tool_calls"] if call["id"] in answered]
            open_calls = {call["id"] for call in calls}
            message = {**message, "tool_calls": calls} if calls else {**message}
            if not calls:
                del message["tool_calls"]
        if message.get("content") or message.get("tool_calls"):
            yield message


def _text(content: Any) -> str:
    """The text of a content; of parts that are none (images, audio, files) a mark with their kind."""
    if isinstance(content, str) or content is None:
        return content or ""
    if not isinstance(content, list):
        return json.dumps(content)
    parts = []
    for part in content:
        if isinstance(part, dict):
            text = part.get("text")
            parts.append(text if isinstance(text, str) else f"[{part.get('type') or 'part'}]")
        else:
            parts.append(str(part))
    return "\n".join(parts)


# -- opencode, and ours ----------------------------------------------------------------------------------


def _opencode(values: list[Any]) -> list[tuple[list[Message], str]]:
    """An exported session: each message is its info and its parts, a tool's result lies in its part."""
    messages: list[Message] = []
    model = ""
    for value in values:
        info = value.get("info") if isinstance(value.get("info"), dict) else {}
        model = str(info.get("modelID") or model)
        parts = [part for part in value["parts"] if isinstance(part, dict)]
        text = "\n".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")
        tools = [part for part in parts if part.get("type") == "tool" and isinstance(part.get("state"), dict)]
        if info.get("role") == "user":
            messages.append({"role": "user", "content": text})
            continue
        calls, results = [], []
        for part in tools:
            state, identity = part["state"], str(part.get("callID") or part.get("id") or "")
            function = {"name": str(part.get("tool") or "tool"), "arguments": json.dumps(state.get("input") or {})}
            calls.append({"id": identity, "type": "function", "function": function})
            said = _text(state.get("output") or state.get("error") or "")
            results.append({"role": "tool", "tool_call_id": identity, "content": said})
        answer: Message = {"role": "assistant", "content": text}
        messages += [{**answer, "tool_calls": calls}, *results] if calls else [answer]
    found = list(_paired(messages))
    return [(found, model)] if found else []


def _exported(name: str, path: Path | None) -> list[Transcript]:
    """A complete export of ours: brought into a store of its own, and out of it as messages."""
    if path is None:
        raise ConfigError(f"{name}: a complete export is read from a file only", hint="Name the file.")
    with TemporaryDirectory(prefix="undercliff-estimate-") as folder:
        db, out = Path(folder) / "store.db", Path(folder) / "talks.jsonl"
        with path.open("rb") as file:
            restore(lines_of(file), db, secret=b"")
        with Archive(db) as archive:
            write_files(archive, "chat", Filters(), out, version="")
        return read_path(out)
