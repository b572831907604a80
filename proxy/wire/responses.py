"""The Responses format: `input` to elements and back, byte for byte. State at the provider is never touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from proxy.core.canonical import printable
from proxy.core.model import Conversation, Element, Frame, Hints
from proxy.wire import jsonbytes
from proxy.wire.base import NOWHERE, RAW, SOURCE, ExpandReader, FrameEdits, Piece, ReplyReader, StreamPlace
from proxy.wire.content import render_texts
from proxy.wire.elements import count_head
from proxy.wire.errors import api_error
from proxy.wire.expand_items import ResponsesExpandBody
from proxy.wire.expand_responses import ResponsesExpandStream
from proxy.wire.frame import FieldCache, Fields, edit_frame
from proxy.wire.hints import read_hints
from proxy.wire.offer import responses_tool, tool_room
from proxy.wire.responses_items import COMPACTION_TRIGGER, OPAQUE_TYPES, read_item, text_slot
from proxy.wire.responses_reader import ResponsesBodyReader, ResponsesStreamReader
from proxy.wire.splitter import Split, Splitter, join, outgoing_gaps

_LIST_KEY = "input"
_LIMIT_KEYS = ("max_output_tokens",)
_STATE_KEYS = ("previous_response_id", "conversation", "context_management", "background")
"""Fields by which the provider holds or changes the history: such a request passes untouched."""
_HISTORY_KEYS = ("previous_response_id", "conversation", "prompt")
"""Fields by which the provider puts items of its own before the list."""


class ResponsesFormat:
    """`/responses`. Holds the cache of known items; otherwise without state."""

    name = "responses"

    def __init__(self) -> None:
        self._splitter = Splitter(_LIST_KEY, read_item)
        self._fields = FieldCache(_LIST_KEY)

    def is_quick(self, body: bytes) -> bool:
        """Is most of the body known?"""
        return self._splitter.is_quick(body)

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Conversation:
        """Read a request body. Raises `NotUnderstoodError`."""
        split = self._split_string(body) or self._splitter.split(body)
        fields = self._fields.read(split.skeleton)
        is_stateful = any(fields.has(key) for key in _STATE_KEYS)
        room, names = tool_room(fields)
        if split.elements and split.elements[0].raw.startswith(b'"'):
            room = "closed"  # a string has no place for a call
        return Conversation(
            wire="responses",
            model=printable(fields.text("model")),
            is_stream=fields.value("stream") is True,
            elements=split.elements,
            head=count_head(split.elements),
            frame=split.frame,
            instructions=printable(fields.text("instructions")),
            tools=fields.raw.get("tools", b""),
            has_tools=fields.has("tools"),
            max_output=fields.integer("max_output_tokens"),
            tool_room=room,
            tool_names=names,
            hints=_hints(headers, fields, split.elements, is_stateful),
            is_opaque=is_stateful or any(element.role in OPAQUE_TYPES for element in split.elements),
            is_partial=any(fields.has(key) for key in _HISTORY_KEYS),
            is_stored=fields.raw.get("store") != b"false",
            is_kept=any(fields.has(key) for key in _HISTORY_KEYS[:2]) and "context_management" not in fields.raw,
        )

    def encode(
        self, conversation: Conversation, pieces: Sequence[Piece], edits: FrameEdits, frame: Frame | None = None
    ) -> bytes:
        """The outgoing body; see `WireFormat.encode`."""
        frame = frame or self.frame(conversation, pieces, edits)
        raws = [*map(RAW, pieces)]
        if _is_string_input(conversation) and not _is_unchanged(conversation, pieces):
            raws = [as_item(raw) for raw in raws]
        return join(frame, raws, frame.gaps)

    def frame(self, conversation: Conversation, pieces: Sequence[Piece], edits: FrameEdits) -> Frame:
        """The frame that `encode` joins the pieces into. A string input that was changed becomes a list."""
        frame = conversation.frame
        is_string = _is_string_input(conversation)
        if is_string:
            frame = list_frame(frame)
        frame = edit_frame(frame, edits, limit_keys=_LIMIT_KEYS)
        if is_string and _is_unchanged(conversation, pieces):
            return Frame(frame.prefix[:-1], (), frame.suffix[1:])
        gaps = outgoing_gaps(frame, len(conversation.elements), [*map(SOURCE, pieces)])
        return Frame(frame.prefix, gaps, frame.suffix)

    def render(self, element: Element, texts: Sequence[str | None]) -> bytes:
        """`element.raw` with its texts replaced in place."""
        slot = text_slot(element.raw) if element.kind == "tool_result" else None
        return render_texts(element.raw, slot, texts)

    def note(self, text: str) -> bytes:
        """A user message that carries `text`."""
        content = [{"type": "input_text", "text": text}]
        return jsonbytes.dumps({"type": "message", "role": "user", "content": content})

    def read_element(self, raw: bytes) -> Element:
        """Decode one item. Raises `NotUnderstoodError`."""
        return self._splitter.element(raw)

    def reader(self, *, is_stream: bool, strip_usage: bool) -> ReplyReader:
        """`strip_usage` has no meaning here: usage comes unasked."""
        if is_stream:
            return ResponsesStreamReader(self.read_element)
        return ResponsesBodyReader(self.read_element)

    def expanding(self, name: str, *, is_stream: bool, strip_usage: bool) -> ExpandReader:
        """A reader that keeps the calls of tool `name` from the client."""
        if is_stream:
            return ResponsesExpandStream(name, self.read_element)
        return ResponsesExpandBody(name, self.read_element)

    def tool(self, name: str) -> bytes:
        """The definition of the tool that returns originals."""
        return responses_tool(name)

    def result(self, call_id: str, text: str) -> bytes:
        """A function call's output."""
        return jsonbytes.dumps({"type": "function_call_output", "call_id": call_id, "output": text})

    def error_body(self, message: str, *, code: str, type: str = "undercliff_error") -> bytes:
        """The shape every client library reads."""
        return api_error(message, code=code, kind=type)

    def error_event(self, message: str, *, code: str, place: StreamPlace = NOWHERE) -> bytes:
        """`error`, nested as providers send it and flat as the specification has it, then `response.failed`."""
        error = {"type": "undercliff_error", "code": code, "message": message, "param": None}
        first = {
            "type": "error",
            "sequence_number": place.sequence,
            **{k: error[k] for k in ("code", "message", "param")},
        }
        response: dict[str, Any] = {"object": "response", "status": "failed", "output": [], "usage": None}
        if place.response_id:
            response = {"id": place.response_id, **response}
        failed = {
            "type": "response.failed",
            "sequence_number": place.sequence + 1,
            "response": {**response, "error": {"code": code, "message": message}},
        }
        return _event("error", {**first, "error": error}) + _event("response.failed", failed)

    def _split_string(self, body: bytes) -> Split | None:
        """An input that is one string, as one synthetic user element; None for a list."""
        if self._splitter.knows(body):
            return None
        members, start = jsonbytes.walk_object(body, until=_LIST_KEY)
        if not members or members[-1].key != _LIST_KEY or body[start : start + 1] != b'"':
            return None
        end = jsonbytes.skip_value(body, start)
        element = self.read_element(body[start:end])
        frame = Frame(body[:start], (), body[end:])
        return Split((element,), frame, body[:start] + b"[]" + body[end:])


def _hints(headers: Mapping[str, str], fields: Fields, elements: Sequence[Element], is_stateful: bool) -> Hints:
    previous = printable(fields.text("previous_response_id"))
    hints = read_hints(headers, fields, is_opaque=is_stateful, previous=previous)
    if kept_in := _kept_in(fields):
        hints = replace(hints, kept_in=kept_in)
    if elements and elements[-1].role == COMPACTION_TRIGGER:
        return replace(hints, label="compaction")
    return hints


def _kept_in(fields: Fields) -> str:
    """The provider's own conversation that a request belongs to: given by its id, or as an object with one."""
    value = fields.value("conversation")
    value = value.get("id") if isinstance(value, dict) else value
    return printable(value) if isinstance(value, str) else ""


class CompactFormat(ResponsesFormat):
    """`/responses/compact`: the provider folds the list into an item of its own. Read, and never changed."""

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Conversation:
        """Read a request body. Raises `NotUnderstoodError`."""
        conversation = super().decode(body, headers)
        hints = replace(conversation.hints, label="compaction")
        return replace(conversation, hints=hints, is_opaque=True, is_stored=False)


def _is_string_input(conversation: Conversation) -> bool:
    return len(conversation.elements) == 1 and conversation.elements[0].raw.startswith(b'"')


def _is_unchanged(conversation: Conversation, pieces: Sequence[Piece]) -> bool:
    return len(pieces) == 1 and pieces[0].source == 0 and pieces[0].raw == conversation.elements[0].raw


def list_frame(frame: Frame) -> Frame:
    """The frame of a string input, for a list in its place."""
    return Frame(frame.prefix + b"[", (), b"]" + frame.suffix)


def as_item(raw: bytes) -> bytes:
    """A bare string as the user message that it is; anything else as it stands."""
    return b'{"role":"user","content":' + raw + b"}" if raw.startswith(b'"') else raw


def _event(name: str, document: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + jsonbytes.dumps(document) + b"\n\n"
