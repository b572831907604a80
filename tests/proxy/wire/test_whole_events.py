"""Events one by one, however the bytes are cut; what is between them passes."""

from __future__ import annotations

from proxy.core.sse import Event
from proxy.wire.whole_events import WholeEvents
from tests.support.feeds import feeds

DROPPED = b"event: x\r\ndata: drop\r\n\r\n"
DATA = b": note\n\ndata: keep\n\n" + DROPPED + b":c\n\ndata: a\ndata: b\n\ndata: last"


def take(event: Event, raw: bytes) -> bytes:
    return b"" if event.data == b"drop" else raw


def test_a_dropped_event_leaves_all_other_bytes() -> None:
    kept = DATA.replace(DROPPED, b"")
    for chunks in feeds(DATA):
        events = WholeEvents()
        out = b"".join(events.feed(chunk, take) for chunk in chunks)
        last, rest = events.close(take)
        # A cut inside a line end may leave the LF of what was dropped: a blank line between events says nothing.
        assert out + last in (kept, kept.replace(b":c", b"\n:c"))
        assert last == b"data: last" and rest == b""


def test_what_is_no_event_comes_back_at_the_end() -> None:
    events = WholeEvents()
    assert events.feed(b": half a comm", take) == b""
    assert events.close(take) == (b"", b": half a comm")
