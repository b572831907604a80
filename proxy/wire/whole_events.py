"""Hands a stream on event by event, so that each may be changed or dropped; bytes between events pass as they are."""

from __future__ import annotations

from collections.abc import Callable

from proxy.core.sse import Event, EventParser

Take = Callable[[Event, bytes], bytes]
"""Gets an event and its bytes; returns the bytes to pass on."""


class WholeEvents:
    """Holds back at most one unfinished event. Linear in the bytes, wherever they are cut."""

    def __init__(self) -> None:
        self._parser = EventParser()
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes, take: Take) -> bytes:
        """What passes of `data`, and of what was held."""
        if not data:
            return b""
        base = self._parser.offset - self._size
        events = self._parser.feed(data)
        self._held.append(data)
        self._size += len(data)
        if not events and self._parser.tail_start <= base:
            return b""
        buffer = b"".join(self._held)
        out: list[bytes] = []
        pos = 0
        for event in events:
            start, end = event.start - base, event.end - base
            out += (buffer[pos:start], take(event, buffer[start:end]))
            pos = end
        tail = max(pos, self._parser.tail_start - base)
        out.append(buffer[pos:tail])
        self._held = [buffer[tail:]] if tail < len(buffer) else []
        self._size = len(buffer) - tail
        return b"".join(out)

    def close(self, take: Take) -> tuple[bytes, bytes]:
        """The end of the stream: what passes of a last event without its blank line, and what is no event."""
        held, self._held, self._size = b"".join(self._held), [], 0
        events = self._parser.close()
        if events:
            return b"".join(take(event, held) for event in events), b""
        return b"", held
