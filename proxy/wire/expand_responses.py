"""Responses replies without their expand calls: several upstream calls become one response of the client.

Bytes in, bytes out: a stream may be cut anywhere. Output indexes and sequence numbers run on over the rounds; the
last event carries the whole output under the first response's id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.core.model import Element, Reply
from proxy.core.sse import Event
from proxy.wire import jsonbytes
from proxy.wire.base import Round, StreamPlace
from proxy.wire.expand_items import ResponsesRounds, is_ours, is_waited_for
from proxy.wire.responses_reader import ResponsesStreamReader
from proxy.wire.whole_events import WholeEvents

_STARTS = frozenset({"response.created", "response.in_progress", "response.queued"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.done"})


class ResponsesExpandStream:
    """Event streams. See `ExpandReader`."""

    def __init__(self, name: str, read_element: Callable[[bytes], Element]) -> None:
        self._name = name
        self._rounds = ResponsesRounds(name, read_element)
        self._read_element = read_element
        self._sequence = 0  # of the next event that the client gets
        self._index = 0  # of the next output item that the client gets
        self._mark = (0, 0)
        self._is_last = False
        self._begin()

    def _begin(self) -> None:
        self.has_content = False
        self.wants_more = False
        self.at_event_boundary = True
        self._reader = ResponsesStreamReader(self._read_element)
        self._events = WholeEvents()
        self._places: dict[int, int | None] = {}  # output index: the client's, None for a hidden item
        self._done: dict[int, dict[str, Any]] = {}
        self._has_hidden = False

    @property
    def is_done(self) -> bool:
        return self._reader.is_done

    @property
    def place(self) -> StreamPlace:
        return StreamPlace(self._sequence, self._rounds.response_id)

    @property
    def error(self) -> bytes:
        return self._reader.error

    def next_round(self, *, is_last: bool = False) -> None:
        """Another upstream call answers; what it says continues the client's reply."""
        self._rounds.end(self._reader.reply().usage)
        self._is_last = is_last
        self._mark = (self._sequence, self._index)
        self._begin()

    def restart(self) -> None:
        """This round is asked for once more."""
        self._sequence, self._index = self._mark
        self._begin()

    def feed(self, chunk: bytes) -> bytes:
        """Read a chunk; returns the bytes for the client, whole events."""
        self._reader.feed(chunk)
        return self._events.feed(chunk, self._take)

    def finish(self) -> bytes:
        """The end of the body."""
        self._reader.finish()
        last, held = self._events.close(self._take)
        self.at_event_boundary = not held or self.wants_more
        return last + (b"" if self.wants_more else held)

    def reply(self) -> Reply:
        """Everything that the client has got."""
        last = self._reader.reply()
        if self._rounds.number == 1 and not self._has_hidden:
            return last
        return self._rounds.reply(last)

    def round(self) -> Round:
        """What the round that just ended said."""
        return self._rounds.round() if self._has_hidden else Round()

    def _take(self, event: Event, raw: bytes) -> bytes:
        """One event as the client gets it: as it came, changed, or nothing."""
        try:
            document = jsonbytes.loads(event.data)
        except ValueError:
            return b"" if self.wants_more else raw
        if not isinstance(document, dict):
            return b"" if self.wants_more else raw
        kind = document.get("type")
        kind = kind if isinstance(kind, str) else event.name.decode(errors="replace")
        changed = self._changed(kind, document)
        if changed is None:
            return b""
        if "sequence_number" in document:
            if changed.get("sequence_number") != self._sequence:
                changed = {**changed, "sequence_number": self._sequence}
            self._sequence += 1
        if changed is document:
            return raw
        name = b"event: " + event.name + b"\n" if event.name else b""
        return name + b"data: " + jsonbytes.dumps(changed) + b"\n\n"

    def _changed(self, kind: str, document: dict[str, Any]) -> dict[str, Any] | None:
        """The event's document for the client; the same object when nothing had to change, None to drop it."""
        if kind in _STARTS:
            return self._rounds.started(document)
        if kind in _ENDS:
            return self._ended(kind, document)
        if kind == "response.failed":  # not content: something smaller may still be sent in its place
            return self._rounds.failed(document)
        index = document.get("output_index")
        if not isinstance(index, int):
            return document
        item = document.get("item")
        if index not in self._places:
            self._places[index] = self._place(item)
        place = self._places[index]
        if kind == "response.output_item.done" and isinstance(item, dict):
            self._done[index] = item
        if place is None:
            return None
        self.has_content = True
        return document if place == index else {**document, "output_index": place}

    def _place(self, item: Any) -> int | None:
        if isinstance(item, dict) and is_ours(item, self._name):
            self._has_hidden = True
            return None
        index, self._index = self._index, self._index + 1
        return index

    def _ended(self, kind: str, document: dict[str, Any]) -> dict[str, Any] | None:
        response = document.get("response")
        if not isinstance(response, dict):
            return document
        output = response.get("output")
        items = output if isinstance(output, list) and output else [self._done[i] for i in sorted(self._done)]
        self._has_hidden = self._has_hidden or any(is_ours(item, self._name) for item in items)
        is_cut = kind == "response.incomplete"
        self._rounds.take(items, is_cut=is_cut)
        if self._has_hidden and not is_cut and not any(is_waited_for(item, self._name) for item in items):
            if not self._is_last:
                self.wants_more = True
                return None
            self._rounds.take(items, is_cut=True)
        self.has_content = True
        if self._rounds.number == 1 and not self._has_hidden:
            return self._rounds.started(document)
        return {**document, "response": self._rounds.merged(response)}
