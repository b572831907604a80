"""Replies to requests that were taken over: they name the previous response that the client named.

The provider got a list of its own and says `null` there. Nothing else of a reply changes, byte for byte.
"""

from __future__ import annotations

from proxy.core.model import Reply
from proxy.core.sse import Event
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes
from proxy.wire.base import ReplyReader
from proxy.wire.whole_events import WholeEvents

_FIELD = "previous_response_id"


class NamedReply:
    """A reader around another one: what that one passes on, with the name put in. See `ReplyReader`."""

    def __init__(self, inner: ReplyReader, name: str, *, is_stream: bool) -> None:
        self._inner = inner
        self._name = jsonbytes.dumps(name)
        self._is_stream = is_stream
        self._events = WholeEvents()
        self._body: list[bytes] = []
        self._is_between = True

    @property
    def has_content(self) -> bool:
        return self._inner.has_content

    @property
    def is_done(self) -> bool:
        return self._inner.is_done

    @property
    def error(self) -> bytes:
        return self._inner.error

    @property
    def at_event_boundary(self) -> bool:
        """Everything goes out in whole events."""
        return self._is_between

    def reply(self) -> Reply:
        """What the other reader read."""
        return self._inner.reply()

    def feed(self, chunk: bytes) -> bytes:
        """Read a chunk; whole events pass, and a body only at its end."""
        data = self._inner.feed(chunk)
        if self._is_stream:
            return self._events.feed(data, self._take)
        self._body.append(data)
        return b""

    def finish(self) -> bytes:
        """The end of the body."""
        last = self._inner.finish()
        if self._is_stream:
            out = self._events.feed(last, self._take)
            rest, held = self._events.close(self._take)
            self._is_between = not held
            return out + rest + held
        return self._named(b"".join([*self._body, last]))

    def _take(self, event: Event, raw: bytes) -> bytes:
        if _FIELD.encode() not in event.data:
            return raw
        data = self._named(event.data, "response")
        if data is event.data:
            return raw
        if event.data in raw:
            return raw.replace(event.data, data)
        # Several lines of data: between them stand only blanks of the JSON.
        name = b"event: " + event.name + b"\n" if event.name else b""
        return name + b"data: " + data.replace(b"\n", b" ") + b"\n\n"

    def _named(self, document: bytes, *within: str) -> bytes:
        """The document with the name where it says that there is none."""
        try:
            start = 0
            for key in within:
                member = jsonbytes.last_member(jsonbytes.walk_object(document, start)[0], key)
                if member is None:
                    return document
                start = member.start
            member = jsonbytes.last_member(jsonbytes.walk_object(document, start)[0], _FIELD)
        except NotUnderstoodError:
            return document
        if member is None or document[member.start : member.end] != b"null":
            return document
        return jsonbytes.replace_spans(document, [(member.start, member.end, self._name)])
