"""Readers of Chat Completions replies, streamed and whole. They read a copy and never change what passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.core.canonical import printable
from proxy.core.model import Element, Reply
from proxy.core.sse import Event, EventParser
from proxy.core.usage import UsageReport, merge, total
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes
from proxy.wire.deltas import DeltaMessage
from proxy.wire.faults import event_fault
from proxy.wire.usage import read_usage
from proxy.wire.whole import WholeBody

_DONE = b"[DONE]"
_MAX_HELD = 16 * 1024
"""No usage chunk is longer; an unfinished event beyond this is passed on as it comes."""

_USAGE_ONLY_KEYS = frozenset(
    {
        "id", "object", "created", "model", "service_tier", "system_fingerprint", "choices", "usage",
        "obfuscation", "provider", "timings", "x_groq",
    }
)  # fmt: skip


class ChatStreamReader:
    """Reads an event stream. With `strip_usage` the usage chunk that only the proxy asked for is taken out."""

    def __init__(self, read_element: Callable[[bytes], Element], *, strip_usage: bool) -> None:
        self.has_content = False
        self.is_done = False
        self.error = b""
        self.at_event_boundary = True
        self._read_element = read_element
        self._strip = UsageFilter() if strip_usage else None
        self._parser = EventParser()
        self._choices: dict[int, DeltaMessage] = {}
        self._finish: dict[int, str] = {}
        self._usage: UsageReport | None = None
        self._id = ""

    def feed(self, chunk: bytes) -> bytes:
        """Read a chunk; returns the bytes for the client."""
        if not chunk:
            return b""
        continues_crlf = self._parser.ends_in_cr
        usage_only = [event for event in self._parser.feed(chunk) if self._take(event)]
        if self._strip is None:
            self.at_event_boundary = self._parser.is_between_events
            return chunk
        out = self._strip.pass_on(chunk, self._parser, usage_only, continues_crlf=continues_crlf)
        self.at_event_boundary = self._parser.is_between_events or self._strip.is_holding_all
        return out

    def finish(self) -> bytes:
        """The end of the body. What was held back of an unfinished event belongs to the client."""
        usage_only = [event for event in self._parser.close() if self._take(event)]
        if self._strip is None:
            return b""
        held = self._strip.release()
        if usage_only:
            return b""
        if held:
            self.at_event_boundary = False
        return held

    def reply(self) -> Reply:
        """Everything read so far."""
        messages = [self._choices[index] for index in sorted(self._choices)]
        elements = tuple(
            self._read_element(jsonbytes.dumps(message.build())) for message in messages if not message.is_empty
        )
        finish = self._finish.get(min(self._finish), "") if self._finish else ""
        return Reply(
            elements=elements,
            text=printable(messages[0].text) if messages else "",
            finish=finish,
            usage=total(self._usage),
            response_id=self._id,
            is_complete=(self.is_done or bool(self._finish)) and not self.error,
            error=self.error,
        )

    def _take(self, event: Event) -> bool:
        """Read one event; true when it is a usage chunk and nothing else."""
        data = event.data
        if data.strip() == _DONE:
            self.is_done = True
            return False
        try:
            document = jsonbytes.loads(data)
        except ValueError:
            document = None
        fault = event_fault(event.name, data, document)
        if fault and not self.error:
            self.error = fault
        if not isinstance(document, dict):
            return False
        if not self._id and isinstance(document.get("id"), str):
            self._id = printable(document["id"])
        choices = document.get("choices")
        choices = choices if isinstance(choices, list) else []
        for choice in choices:
            if isinstance(choice, dict):
                self._take_choice(choice)
        if "usage" in document or "timings" in document or "x_groq" in document or "usage" in _first(choices):
            self._usage = merge(self._usage, read_usage(document))
        return not choices and not fault and _is_usage_only(document)

    def _take_choice(self, choice: dict[str, Any]) -> None:
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")  # a server that sends the whole message at the end
        if isinstance(delta, dict):
            message = self._choices.get(index)
            if message is None:
                message = self._choices[index] = DeltaMessage()
            if message.add(delta):
                self.has_content = True
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish[index] = printable(finish)
            if finish != "error":
                self.has_content = True


class UsageFilter:
    """Takes whole events out of the passing bytes. Holds back at most one unfinished event that may have to go."""

    def __init__(self) -> None:
        self._held = b""
        self._is_passing = False  # part of the unfinished event is out already
        self._dropped_last = False

    @property
    def is_holding_all(self) -> bool:
        """True when nothing of the unfinished event has been passed on."""
        return bool(self._held)

    def pass_on(self, chunk: bytes, parser: EventParser, drop: list[Event], *, continues_crlf: bool) -> bytes:
        """The bytes to pass on after `parser` was fed `chunk`, without the events in `drop`."""
        if continues_crlf and self._dropped_last and chunk[:1] == b"\n":
            chunk = chunk[1:]  # the rest of the dropped event's last line end
        data = self._held + chunk if self._held else chunk
        base = parser.offset - len(data)
        out: list[bytes] = []
        pos = 0
        for event in drop:
            if event.start >= base + pos:
                out.append(data[pos : event.start - base])
                pos = event.end - base
        self._dropped_last = bool(drop) and pos == len(data)
        tail = max(pos, parser.tail_start - base)
        if tail < len(data) and not (self._is_passing and parser.tail_start < base) and _may_be_usage(data[tail:]):
            out.append(data[pos:tail])
            self._held = data[tail:]
            self._is_passing = False
        else:
            out.append(data[pos:])
            self._held = b""
            self._is_passing = not parser.is_between_events
        return b"".join(out)

    def release(self) -> bytes:
        held, self._held = self._held, b""
        return held


def _may_be_usage(start: bytes) -> bool:
    """Could this unfinished event be a usage chunk? Its size or a delta says no."""
    return len(start) < _MAX_HELD and b'"delta"' not in start and not start.startswith(b":")


def _is_usage_only(document: dict[str, Any]) -> bool:
    return isinstance(document.get("usage"), dict) and "choices" in document and document.keys() <= _USAGE_ONLY_KEYS


def _first(choices: list[Any]) -> dict[str, Any]:
    return choices[0] if choices and isinstance(choices[0], dict) else {}


class ChatBodyReader(WholeBody):
    """Reads a non-streamed reply."""

    def __init__(self, read_element: Callable[[bytes], Element]) -> None:
        super().__init__()
        self._read_element = read_element

    def reply(self) -> Reply:
        """What the body says; without content while it is cut."""
        document = self.document()
        if not isinstance(document, dict):
            return Reply(error=self.error)
        choices = document.get("choices")
        choices = [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
        first = choices[0] if choices else {}
        message = first.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        finish = first.get("finish_reason")
        response_id = document.get("id")
        return Reply(
            elements=self._elements(len(choices)),
            text=printable(content) if isinstance(content, str) else "",
            finish=printable(finish) if isinstance(finish, str) else "",
            usage=total(read_usage(document)),
            response_id=printable(response_id) if isinstance(response_id, str) else "",
            is_complete=bool(choices) and not self.error,
            error=self.error,
        )

    def _elements(self, count: int) -> tuple[Element, ...]:
        """The messages as exact slices of the body."""
        if not count:
            return ()
        body = self.body
        elements = []
        try:
            for raw in jsonbytes.split_list(jsonbytes.slice_value(body, "choices") or b"[]"):
                message = jsonbytes.slice_value(raw, "message") if raw.startswith(b"{") else None
                if message is not None:
                    elements.append(self._read_element(message))
        except NotUnderstoodError:
            return ()  # a reply that we cannot take apart is relayed all the same
        return tuple(elements)
