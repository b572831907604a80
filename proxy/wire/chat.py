"""The Chat Completions format: `messages` to elements and back, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.core.canonical import make_atom, printable
from proxy.core.failures import looks_failed
from proxy.core.model import Atom, Call, Conversation, Element, Frame
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes
from proxy.wire.base import NOWHERE, RAW, SOURCE, ExpandReader, FrameEdits, Piece, ReplyReader, StreamPlace
from proxy.wire.chat_reader import ChatBodyReader, ChatStreamReader
from proxy.wire.content import Content, TextSlot, read_content, render_texts, texts_of
from proxy.wire.elements import (
    HEAD_ROLES,
    atom_of_call,
    build_call,
    build_element,
    count_head,
    describe_call,
    join_lines,
)
from proxy.wire.errors import api_error
from proxy.wire.expand_body import ChatExpandBody
from proxy.wire.expand_chat import ChatExpandStream
from proxy.wire.frame import FieldCache, Fields, edit_frame
from proxy.wire.hints import read_hints
from proxy.wire.offer import chat_tool, tool_room
from proxy.wire.splitter import Splitter, join, outgoing_gaps

_LIST_KEY = "messages"
_LIMIT_KEYS = ("max_completion_tokens", "max_tokens")
_REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_text")
_TOOL_TEXT = TextSlot("content")


class ChatFormat:
    """`/chat/completions`. Holds the cache of known messages; otherwise without state."""

    name = "chat"

    def __init__(self) -> None:
        self._splitter = Splitter(_LIST_KEY, read_message)
        self._fields = FieldCache(_LIST_KEY)

    def is_quick(self, body: bytes) -> bool:
        """Is most of the body known?"""
        return self._splitter.is_quick(body)

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Conversation:
        """Read a request body. Raises `NotUnderstoodError`."""
        split = self._splitter.split(body)
        fields = self._fields.read(split.skeleton)
        is_stream = fields.value("stream") is True
        options = fields.value("stream_options")
        room, names = tool_room(fields)
        return Conversation(
            wire="chat",
            model=printable(fields.text("model")),
            is_stream=is_stream,
            elements=split.elements,
            head=count_head(split.elements),
            frame=split.frame,
            tools=fields.raw.get("tools", b"") or fields.raw.get("functions", b""),
            has_tools=fields.has("tools") or fields.has("functions"),
            max_output=_max_output(fields),
            wants_usage=not is_stream or (isinstance(options, dict) and options.get("include_usage") is True),
            choices=fields.integer("n") or 1,
            tool_room=room,
            tool_names=names,
            hints=read_hints(headers, fields),
        )

    def encode(
        self, conversation: Conversation, pieces: Sequence[Piece], edits: FrameEdits, frame: Frame | None = None
    ) -> bytes:
        """The outgoing body; see `WireFormat.encode`."""
        frame = frame or self.frame(conversation, pieces, edits)
        return join(frame, [*map(RAW, pieces)], frame.gaps)

    def frame(self, conversation: Conversation, pieces: Sequence[Piece], edits: FrameEdits) -> Frame:
        """The frame that `encode` joins the pieces into."""
        frame = edit_frame(conversation.frame, edits, limit_keys=_LIMIT_KEYS)
        gaps = outgoing_gaps(frame, len(conversation.elements), [*map(SOURCE, pieces)])
        return Frame(frame.prefix, gaps, frame.suffix)

    def render(self, element: Element, texts: Sequence[str | None]) -> bytes:
        """`element.raw` with its texts replaced in place."""
        return render_texts(element.raw, _TOOL_TEXT if element.kind == "tool_result" else None, texts)

    def note(self, text: str) -> bytes:
        """A user message that carries `text`."""
        return jsonbytes.dumps({"role": "user", "content": text})

    def read_element(self, raw: bytes) -> Element:
        """Decode one message. Raises `NotUnderstoodError`."""
        return self._splitter.element(raw)

    def reader(self, *, is_stream: bool, strip_usage: bool) -> ReplyReader:
        if is_stream:
            return ChatStreamReader(self.read_element, strip_usage=strip_usage)
        return ChatBodyReader(self.read_element)

    def expanding(self, name: str, *, is_stream: bool, strip_usage: bool) -> ExpandReader:
        """A reader that keeps the calls of tool `name` from the client."""
        if is_stream:
            return ChatExpandStream(name, self.read_element, strip_usage=strip_usage)
        return ChatExpandBody(name, self.read_element)

    def tool(self, name: str) -> bytes:
        """The definition of the tool that returns originals."""
        return chat_tool(name)

    def result(self, call_id: str, text: str) -> bytes:
        """A tool message."""
        return jsonbytes.dumps({"role": "tool", "tool_call_id": call_id, "content": text})

    def error_body(self, message: str, *, code: str, type: str = "undercliff_error") -> bytes:
        """The shape every client library reads."""
        return api_error(message, code=code, kind=type)

    def error_event(self, message: str, *, code: str, place: StreamPlace = NOWHERE) -> bytes:
        """A data event with a truthy `error`: the only shape that client libraries raise on."""
        return b"data: " + self.error_body(message, code=code) + b"\n\n"


def read_message(raw: bytes) -> Element:
    """Decode one message from its bytes; depends on them alone. Raises `NotUnderstoodError`."""
    try:
        message = jsonbytes.loads_strict(raw)
    except ValueError as error:
        raise NotUnderstoodError("a message cannot be read") from error
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise NotUnderstoodError("a message without a role")
    role = message["role"]
    if role in ("tool", "function"):
        return _read_result(raw, message, role)
    if role == "assistant":
        return _read_assistant(raw, message)
    content = read_content(message.get("content"))
    if role in HEAD_ROLES:
        atoms = (make_atom("sys", content.canonical),)
        return build_element(raw, "message", role, content.text, atoms, flat_tokens=content.flat_tokens)
    if role == "user":
        atoms = (make_atom("user", content.canonical),)
        return build_element(raw, "message", role, content.text, atoms, flat_tokens=content.flat_tokens)
    atom = make_atom("other", jsonbytes.canonical_value(message), text="")
    return build_element(raw, "opaque", printable(role), content.text, (atom,), flat_tokens=content.flat_tokens)


def _read_result(raw: bytes, message: dict[str, Any], role: str) -> Element:
    content = read_content(message.get("content"))
    # A legacy function message has no id: it answers by name, which says nothing about identity.
    answers = message.get("tool_call_id") if role == "tool" else message.get("name")
    answers = answers if isinstance(answers, str) else ""
    atom = make_atom("result", content.canonical, call_id=answers if role == "tool" else "")
    texts = texts_of(message, _TOOL_TEXT)
    is_failed = message.get("is_error") is True or message.get("status") == "error" or looks_failed(content.text)
    return build_element(
        raw,
        "tool_result",
        role,
        content.text,
        (atom,),
        flat_tokens=content.flat_tokens,
        texts=texts,
        answers=printable(answers),
        is_failed=is_failed,
    )


def _read_assistant(raw: bytes, message: dict[str, Any]) -> Element:
    content = read_content(message.get("content"))
    if not content.canonical and isinstance(message.get("refusal"), str):
        content = read_content(message["refusal"])
    reasoning = _reasoning_text(message)
    calls = _read_calls(message)
    atoms: list[Atom] = []
    if reasoning:
        atoms.append(make_atom("reasoning", reasoning, is_weak=True, text=""))
    if content.canonical or not calls:
        # Beside calls the text is weak: some clients send null in its place.
        atoms.append(_text_atom(content, message, is_weak=bool(calls)))
    atoms += [atom_of_call(call, has_id=is_native) for call, is_native in calls]
    lines = [reasoning, content.text, *(describe_call(call) for call, _ in calls)]
    return build_element(
        raw,
        "tool_call" if calls else "message",
        "assistant",
        join_lines(*lines),
        tuple(atoms),
        flat_tokens=content.flat_tokens,
        calls=tuple(call for call, _ in calls),
    )


def _text_atom(content: Content, message: dict[str, Any], *, is_weak: bool) -> Atom:
    audio = message.get("audio")
    if not content.canonical and isinstance(audio, dict) and isinstance(audio.get("id"), str):
        return make_atom("other", f"audio {audio['id']}", text="")
    return make_atom("asst", content.canonical, is_weak=is_weak)


def _reasoning_text(message: dict[str, Any]) -> str:
    for key in _REASONING_KEYS:
        value = message.get(key)
        if isinstance(value, str) and value:
            return printable(value)
    details = message.get("reasoning_details")
    if isinstance(details, list):
        texts = [part.get("text") or part.get("summary") for part in details if isinstance(part, dict)]
        return printable("\n".join(text for text in texts if isinstance(text, str)))
    return ""


def _read_calls(message: dict[str, Any]) -> list[tuple[Call, bool]]:
    """The calls, each with whether its id is one that a provider issued."""
    calls: list[tuple[Call, bool]] = []
    given = message.get("tool_calls")
    for item in given if isinstance(given, list) else ():
        if not isinstance(item, dict):
            continue
        custom = item.get("custom")
        body, key = (custom, "input") if isinstance(custom, dict) else (item.get("function"), "arguments")
        body = body if isinstance(body, dict) else {}
        calls.append((build_call(item.get("id"), body.get("name"), body.get(key)), True))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        calls.append((build_call(legacy.get("name"), legacy.get("name"), legacy.get("arguments")), False))
    return calls


def _max_output(fields: Fields) -> int | None:
    limits = [limit for key in _LIMIT_KEYS if (limit := fields.integer(key)) is not None]
    return min(limits) if limits else None
