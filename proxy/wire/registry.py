"""Which wire format a request speaks, by its path alone."""

from __future__ import annotations

from proxy.wire.base import WireFormat
from proxy.wire.chat import ChatFormat
from proxy.wire.responses import CompactFormat, ResponsesFormat


class Registry:
    """The wire formats of one process, each with its cache."""

    def __init__(self) -> None:
        self.chat: WireFormat = ChatFormat()
        self.responses: WireFormat = ResponsesFormat()
        self.compact: WireFormat = CompactFormat()

    def find(self, method: str, path: str) -> WireFormat | None:
        """The format of a request that carries a conversation; None: pass it through."""
        if method != "POST":
            return None
        if path.endswith("/chat/completions"):
            return self.chat
        if path.endswith("/responses/compact"):
            return self.compact
        return self.responses if path.endswith("/responses") else None

    def named(self, name: str) -> WireFormat:
        """The format by the name that a conversation carries. Raises KeyError."""
        return {"chat": self.chat, "responses": self.responses}[name]
