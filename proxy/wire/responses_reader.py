"""Readers of Responses replies, streamed and whole. They read a copy and never change what passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proxy.core.canonical import printable
from proxy.core.model import Element, Reply
from proxy.core.sse import Event, EventParser
from proxy.core.usage import UsageReport, merge, total
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes
from proxy.wire.faults import event_fault
from proxy.wire.responses_items import provider_id
from proxy.wire.usage import read_usage
from proxy.wire.whole import WholeBody

_QUIET = frozenset({"response.created", "response.in_progress", "response.queued"})
"""What comes before content, and before the errors that come in place of content."""

_SKIPPED = (b"response.image_generation_call.partial_image", b"response.audio.delta")
"""Big, and of no use to the record."""

_ENDS = frozenset({"response.completed", "response.incomplete", "response.done", "response.cancelled"})
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


class _Pending:
    """An item that was begun and is not done: what a cut leaves of it."""

    __slots__ = ("item", "parts")

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        self.parts: list[str] = []

    def build(self) -> dict[str, Any]:
        text = "".join(self.parts)
        kind = self.item.get("type")
        if kind == "function_call":
            return {**self.item, "arguments": text or self.item.get("arguments", "")}
        if kind == "custom_tool_call":
            return {**self.item, "input": text or self.item.get("input", "")}
        if kind == "message":
            return {**self.item, "content": [{"type": "output_text", "text": text, "annotations": []}]}
        return self.item


class ResponsesStreamReader:
    """Reads an event stream. Whole items come in `output_item.done` events, all at once in the last event."""

    def __init__(self, read_element: Callable[[bytes], Element]) -> None:
        self.has_content = False
        self.is_done = False
        self.error = b""
        self.at_event_boundary = True
        self._read_element = read_element
        self._parser = EventParser()
        self._pending: dict[int, _Pending] = {}
        self._done: dict[int, bytes] = {}
        self._final: tuple[bytes, ...] = ()
        self._usage: UsageReport | None = None
        self._id = ""
        self._finish = ""
        self._is_complete = False

    def feed(self, chunk: bytes) -> bytes:
        """Read a chunk; returns it."""
        for event in self._parser.feed(chunk):
            self._take(event)
        self.at_event_boundary = self._parser.is_between_events
        return chunk

    def finish(self) -> bytes:
        """The end of the body."""
        for event in self._parser.close():
            self._take(event)
        return b""

    def reply(self) -> Reply:
        """Everything read so far, begun items included while the stream is not complete."""
        elements = self._elements()
        return Reply(
            elements=elements,
            text="\n".join(e.text for e in elements if e.kind == "message"),
            finish="tool_calls" if self._finish == "stop" and any(e.calls for e in elements) else self._finish,
            usage=total(self._usage),
            response_id=self._id,
            is_complete=self._is_complete and not self.error,
            error=self.error,
            item_ids=tuple(provider_id(element.raw) for element in elements),
        )

    def _take(self, event: Event) -> None:
        if event.name in _SKIPPED:
            self.has_content = True
            return
        if event.data.strip() == b"[DONE]":
            self.is_done = True
            return
        try:
            document = jsonbytes.loads(event.data)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            self.error = self.error or event_fault(event.name, event.data, document)
            return
        kind = document.get("type")
        kind = kind if isinstance(kind, str) else event.name.decode(errors="replace")
        if kind == "response.failed":
            self._take_failure(document)
        elif fault := event_fault(event.name, event.data, document):
            self.error = self.error or fault
        elif kind in _QUIET:
            self._take_id(document)
        elif kind.startswith("response."):
            self.has_content = True
            self._take_content(kind, document, event.data)

    def _take_id(self, document: dict[str, Any]) -> None:
        response = document.get("response")
        if isinstance(response, dict) and isinstance(response.get("id"), str):
            self._id = printable(response["id"])

    def _take_failure(self, document: dict[str, Any]) -> None:
        self.is_done = True
        self._finish = "error"
        self._take_id(document)
        self._usage = merge(self._usage, read_usage(document))
        response = document.get("response")
        error = response.get("error") if isinstance(response, dict) else None
        # Only the error: the rest of the response holds instructions, whose words are nobody's verdict.
        self.error = self.error or jsonbytes.dumps({"error": error or document.get("error") or {"message": ""}})

    def _take_content(self, kind: str, document: dict[str, Any], data: bytes) -> None:
        if kind in _ENDS:
            self._take_end(kind, document, data)
            return
        index = document.get("output_index")
        if not isinstance(index, int):
            return
        if kind == "response.output_item.added":
            item = document.get("item")
            if isinstance(item, dict):
                self._pending[index] = _Pending(item)
        elif kind == "response.output_item.done":
            self._pending.pop(index, None)
            raw = _slice(data, "item")
            if raw:
                self._done[index] = raw
        elif kind.endswith(".delta") and index in self._pending:
            delta = document.get("delta")
            if isinstance(delta, str) and not kind.startswith("response.reasoning"):
                self._pending[index].parts.append(delta)

    def _take_end(self, kind: str, document: dict[str, Any], data: bytes) -> None:
        self.is_done = True
        self._is_complete = kind != "response.cancelled"
        self._take_id(document)
        self._usage = merge(self._usage, read_usage(document))
        response = document.get("response")
        self._finish = _finish_of(
            response if isinstance(response, dict) else {}, is_whole=kind in ("response.completed", "response.done")
        )
        self._final = _split(_slice(data, "response", "output"))

    def _elements(self) -> tuple[Element, ...]:
        raws = dict(self._done)
        if self._final:
            raws = dict(enumerate(self._final))
        elif not self._is_complete:
            raws |= {index: jsonbytes.dumps(pending.build()) for index, pending in self._pending.items()}
        return _read_all(self._read_element, [raws[index] for index in sorted(raws)])


class ResponsesBodyReader(WholeBody):
    """Reads a non-streamed reply."""

    def __init__(self, read_element: Callable[[bytes], Element]) -> None:
        super().__init__()
        self._read_element = read_element

    def reply(self) -> Reply:
        """What the body says; without content while it is cut."""
        document = self.document()
        if not isinstance(document, dict):
            return Reply(error=self.error)
        elements = _read_all(self._read_element, _split(_slice(self.body, "output")))
        status = document.get("status")
        is_compaction = document.get("object") == "response.compaction"
        finish = _finish_of(document, is_whole=status in ("completed", None))
        response_id = document.get("id")
        return Reply(
            elements=elements,
            text="\n".join(element.text for element in elements if element.kind == "message"),
            finish="tool_calls" if finish == "stop" and any(e.calls for e in elements) else finish,
            usage=total(read_usage(document)),
            response_id=printable(response_id) if isinstance(response_id, str) else "",
            is_complete=(status in ("completed", "incomplete") or is_compaction) and not self.error,
            error=self.error,
            item_ids=tuple(provider_id(element.raw) for element in elements),
        )


def _finish_of(response: dict[str, Any], *, is_whole: bool) -> str:
    """Why it ended, in the words of Chat Completions."""
    if is_whole:
        return "stop"
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if isinstance(reason, str):
        return _FINISH.get(reason, printable(reason))
    status = response.get("status")
    return status if isinstance(status, str) else "incomplete"


def _slice(data: bytes, *keys: str) -> bytes:
    try:
        return jsonbytes.slice_value(data, *keys) or b""
    except NotUnderstoodError:
        return b""


def _split(raw: bytes) -> tuple[bytes, ...]:
    try:
        return tuple(jsonbytes.split_list(raw)) if raw.startswith(b"[") else ()
    except NotUnderstoodError:
        return ()


def _read_all(read: Callable[[bytes], Element], raws: Sequence[bytes]) -> tuple[Element, ...]:
    try:
        return tuple(read(raw) for raw in raws)
    except NotUnderstoodError:
        return ()  # a reply that we cannot take apart is relayed all the same
