"""What both formats share in reading a reply that is no stream: collect it, and find an error at its end."""

from __future__ import annotations

from typing import Any

from proxy.wire import jsonbytes
from proxy.wire.faults import body_fault

WHOLE_REPLY = 64 * 1024
"""No error body is longer: from here on a reply counts as content."""


class WholeBody:
    """Collects a body. Whether it is an error shows only at its end, or by its size."""

    def __init__(self) -> None:
        self.has_content = False
        self.is_done = False
        self.error = b""
        self.at_event_boundary = True
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        """Read a chunk; returns it."""
        if chunk:
            self._parts.append(chunk)
            self._size += len(chunk)
            self.at_event_boundary = False
            self.has_content = self.has_content or self._size > WHOLE_REPLY
        return chunk

    def finish(self) -> bytes:
        """The end of the body: now an error shows."""
        self.is_done = True
        self.error = body_fault(self.body, self.document())
        if not self.error and self.body.strip():
            self.has_content = True
        return b""

    @property
    def body(self) -> bytes:
        """All that has arrived."""
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0] if self._parts else b""

    def document(self) -> Any:
        """The body's JSON value; None while it is cut, or when it is none."""
        try:
            return jsonbytes.loads(self.body.strip())
        except ValueError:
            return None
