"""One ASGI request without a server, for parts whose point is not on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from proxy.core.headers import RawHeaders, header

Message = MutableMapping[str, Any]


@dataclass(slots=True)
class Sent:
    """What the application sent."""

    messages: list[Message] = field(default_factory=list)

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> RawHeaders:
        return list(self.messages[0]["headers"])

    def header(self, name: bytes) -> str:
        return header(self.headers, name)

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.messages[1:])

    @property
    def is_complete(self) -> bool:
        return len(self.messages) > 1 and not self.messages[-1]["more_body"]


def receiving(*parts: bytes, leaves: bool = False) -> Any:
    """A client that sends these parts of a body, then waits for the answer, or leaves before its last part."""
    queue: list[Message] = [
        {"type": "http.request", "body": part, "more_body": leaves or number < len(parts)}
        for number, part in enumerate(parts or (b"",), 1)
    ]
    if leaves:
        queue.append({"type": "http.disconnect"})

    async def receive() -> Message:
        if not queue:
            await asyncio.Event().wait()
        return queue.pop(0)

    return receive


def scope(method: str, path: str, headers: Iterable[tuple[bytes, bytes]] = (), *, query: bytes = b"") -> Message:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": list(headers),
        "client": ("192.0.2.7", 5000),
    }
