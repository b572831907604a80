"""The client's sending side of one exchange: its body, and the moment it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientGoneError(Exception):
    """The client closed its connection before its request was complete."""


class BodyTooLargeError(Exception):
    """The body is larger than the configured limit."""


class ClientLink:
    """Reads the body once, then watches for the disconnect. One reader at a time."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_read = asyncio.Event()
        self.is_gone = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Body bytes as they arrive. Raises `ClientGoneError`."""
        while not self._is_read.is_set():
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.is_gone = True
                self._is_read.set()
                raise ClientGoneError
            if not message.get("more_body", False):
                self._is_read.set()
            if body := message.get("body", b""):
                yield body

    async def body(self, cap: int) -> bytes:
        """The whole body. Raises `ClientGoneError`, and `BodyTooLargeError` past `cap` bytes."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > cap:
                raise BodyTooLargeError
            parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def gone(self) -> None:
        """Return when the client has left. Waits for the body to be read first."""
        await self._is_read.wait()
        while not self.is_gone:
            message = await self._receive()
            self.is_gone = message["type"] == "http.disconnect"
