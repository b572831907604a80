"""The provider's own count of a Responses request, where the error of ours could decide. Waits little, fails open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit, urlunsplit

import structlog

from proxy.core.headers import RawHeaders
from proxy.errors import NotUnderstoodError, UpstreamError
from proxy.upstream import Upstream
from proxy.wire.input_count import count_request, read_count

log = structlog.get_logger()

Count = Callable[[bytes], Awaitable[int | None]]
"""Gets a request's body; None when there is no count to be had now."""

WAIT_S = 2.0
PAUSE_S = 300.0
"""A provider that does not count is not asked again for so long."""
UNSURE = 0.25
"""So far from the truth our count of what is new may be."""
_MOST_BYTES = 64 * 1024


def could_decide(expected: int, new: int, mark: float) -> bool:
    """Is what we expect so near to the mark that the error of our count of what is new decides on which side it is?"""
    return abs(expected - mark) <= UNSURE * new


class InputCounter:
    """One per process: remembers which providers do not count."""

    def __init__(
        self, upstream: Upstream, *, wait_s: float = WAIT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._upstream = upstream
        self._wait_s = wait_s
        self._clock = clock
        self._silent_until: dict[str, float] = {}
        self.asked = 0

    def of(self, url: str, headers: RawHeaders) -> Count:
        """Counts requests that go to `url` with these headers: the caller's own key."""
        parts = urlsplit(url)
        target = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/input_tokens"))
        own = [(name, value) for name, value in headers if name.lower() not in (b"accept-encoding", b"accept")]

        async def count(body: bytes) -> int | None:
            return await self._count(target, [*own, (b"accept-encoding", b"identity")], body)

        return count

    async def _count(self, url: str, headers: RawHeaders, body: bytes) -> int | None:
        if self._clock() < self._silent_until.get(url, 0.0):
            return None
        self.asked += 1
        reason = "no count in the answer"
        try:
            async with asyncio.timeout(self._wait_s):
                status, said = await self._ask(url, headers, count_request(body))
            found = read_count(said) if status == 200 else None
            if found is not None:
                return found
            reason = f"status {status}" if status != 200 else reason
        except TimeoutError:
            reason = f"no answer within {self._wait_s:g} s"
        except (UpstreamError, NotUnderstoodError) as error:
            reason = str(error)
        self._silent_until[url] = self._clock() + PAUSE_S
        log.warning("input_not_counted", reason=reason, pause_s=PAUSE_S)
        return None

    async def _ask(self, url: str, headers: RawHeaders, body: bytes) -> tuple[int, bytes]:
        response = await self._upstream.send("POST", url, headers, body)
        try:
            said = bytearray()
            while len(said) <= _MOST_BYTES and (chunk := await response.read()):
                said += chunk
            return response.status, bytes(said)
        finally:
            await response.aclose()
