"""Server-sent events from bytes, incrementally. Any line end, cut anywhere, no size cap; linear in the bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


def is_filler(data: bytes) -> bool:
    """Whole lines that say nothing: comments and blank ones, as providers send them to keep a link alive."""
    return data[-1:] in (b"\n", b"\r") and all(line[:1] in (b"", b":") for line in _LINE_END.split(data))


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `start` and `end` are offsets in the whole stream; `end` is behind its blank line.

    Comment lines in front of the first field do not belong to it. Of a terminator that ends in
    CR the LF may still follow: see `EventParser.ends_in_cr`.
    """

    data: bytes
    name: bytes
    start: int
    end: int


class EventParser:
    """Feed bytes, get whole events. Remembers only the line it is in and the fields before it."""

    def __init__(self) -> None:
        self.offset = 0  # bytes fed so far
        self.ends_in_cr = False  # the last byte was a line end CR: an LF next belongs to it
        self._parts: list[bytes] = []  # the unfinished line
        self._data: list[bytes] = []
        self._name = b""
        self._start = -1  # offset of the event's first field line; -1 between events
        self._line_start = 0

    @property
    def is_between_events(self) -> bool:
        """True when all that was fed is whole events, comments and blank lines."""
        return self._start < 0 and not self._parts

    @property
    def tail_start(self) -> int:
        """Offset where the unfinished event begins; equals `offset` between events."""
        if self._start >= 0:
            return self._start
        return self._line_start if self._parts else self.offset

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes."""
        if not chunk:
            return []
        if self._start < 0 and not self._parts and not self.ends_in_cr and b"\r" not in chunk:
            events = self._feed_whole(chunk)
            if events is not None:
                return events
        return self._feed_lines(chunk)

    def close(self) -> list[Event]:
        """The event that the end of the stream left without its blank line, if any."""
        events: list[Event] = []
        if self._parts:
            line = b"".join(self._parts)
            self._parts.clear()
            self._take_line(line, self._line_start, self.offset, events)
        if self._start >= 0:
            self._dispatch(self.offset, events)
        return events

    def _feed_whole(self, chunk: bytes) -> list[Event] | None:
        """The common case: whole events of one data line, with a name before it or not; None when it is not."""
        if not chunk.endswith(b"\n\n"):
            return None
        events: list[Event] = []
        start = self.offset
        for block in chunk[:-2].split(b"\n\n"):
            name, data = b"", block
            if block.startswith(b"event: "):
                name, _, data = block[7:].partition(b"\n")
            if not data.startswith(b"data: ") or b"\n" in data:
                return None
            end = start + len(block) + 2
            events.append(Event(data[6:], name, start, end))
            start = end
        self.offset = self._line_start = start
        return events

    def _feed_lines(self, chunk: bytes) -> list[Event]:
        events: list[Event] = []
        base = self.offset
        self.offset += len(chunk)
        pos = 0
        if self.ends_in_cr and chunk[0] == 0x0A:
            pos = 1
            self._line_start = base + 1
        self.ends_in_cr = False
        for match in _LINE_END.finditer(chunk, pos):
            line = chunk[pos : match.start()]
            if self._parts:
                self._parts.append(line)
                line = b"".join(self._parts)
                self._parts.clear()
            pos = match.end()
            self._take_line(line, self._line_start, base + pos, events)
            self._line_start = base + pos
        if pos < len(chunk):
            self._parts.append(chunk[pos:])
        elif chunk.endswith(b"\r"):
            self.ends_in_cr = True
        return events

    def _take_line(self, line: bytes, start: int, end: int, events: list[Event]) -> None:
        if start == 0 and line.startswith(_BOM):
            line = line[3:]
        if not line:
            if self._start >= 0:
                self._dispatch(end, events)
            return
        if line.startswith(b":"):
            return
        if self._start < 0:
            self._start = start
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value

    def _dispatch(self, end: int, events: list[Event]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(Event(data, self._name, self._start, end))
        self._data = []
        self._name = b""
        self._start = -1
