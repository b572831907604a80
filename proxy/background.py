"""Responses that run in the background: who asked for them, and their bill when somebody fetches the result.

Reads a copy of what passes. Only those asked for through this process are known.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass

import structlog

from proxy.codings import STREAM_ERRORS, CodingError, Decoder, decoder
from proxy.core.headers import header
from proxy.core.model import Reply
from proxy.core.pricing import cost
from proxy.core.records import Batch, ExchangeRow, OutcomeRow
from proxy.errors import StoreError
from proxy.recording import now
from proxy.store.base import Store
from proxy.turn import Turn
from proxy.upstream import UpstreamResponse
from proxy.wire.base import ReplyReader

log = structlog.get_logger()

RUNNING = frozenset({"queued", "in_progress"})
NOTE = "the result of a response that ran in the background"
KEPT = 1024


@dataclass(frozen=True, slots=True)
class Expected:
    """A response that somebody waits for, and the turn that asked for it."""

    name: str
    tenant: str
    turn: Turn


class Watch:
    """Reads one answer that may hold the result. Never raises: what cannot be read is no result."""

    def __init__(self, background: Background, expected: Expected, path: str) -> None:
        self._background = background
        self._expected = expected
        self._path = path
        self._status = 0
        self._reader: ReplyReader | None = None
        self._decoder: Decoder | None = None

    def start(self, response: UpstreamResponse) -> None:
        """The head has arrived."""
        is_stream = "event-stream" in header(response.headers, b"content-type")
        self._status = response.status
        try:
            self._decoder = decoder(header(response.headers, b"content-encoding"))
        except CodingError:
            return
        if response.status == 200:
            self._reader = self._expected.turn.fmt.reader(is_stream=is_stream, strip_usage=False)

    def feed(self, chunk: bytes) -> None:
        """Bytes of the body, as they passed."""
        if self._reader is None or self._decoder is None:
            return
        try:
            self._reader.feed(self._decoder.feed(chunk))
        except STREAM_ERRORS:
            self._reader = None

    async def finish(self) -> None:
        """The body is over, or broke off: what it told is kept."""
        if self._reader is not None:
            self._reader.finish()
            self._background.take(self._expected, self._path, self._reader.reply())


class Background:
    """Remembers what is waited for, and writes each bill once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._expected: OrderedDict[tuple[str, str], Expected] = OrderedDict()

    def expect(self, turn: Turn, reply: Reply, tenant: str) -> None:
        """A reply was read: if it only says that the work has begun, its result will be fetched."""
        if reply.response_id and reply.finish in RUNNING:
            self._expected[(tenant, reply.response_id)] = Expected(reply.response_id, tenant, turn)
            while len(self._expected) > KEPT:
                self._expected.popitem(last=False)

    def watch(self, method: str, path: str, tenant: str) -> Watch | None:
        """A reader for this request's answer, when it may hold a result that is waited for."""
        before, _, name = path.rpartition("/")
        if method != "GET" or not before.endswith("/responses"):
            return None
        expected = self._expected.get((tenant, name))
        return Watch(self, expected, path) if expected is not None else None

    def take(self, expected: Expected, path: str, reply: Reply) -> None:
        """An answer was read whole: write its bill when it has one."""
        key = (expected.tenant, expected.name)
        if reply.usage is None or self._expected.pop(key, None) is None:
            return
        turn, usage, created = expected.turn, reply.usage, now()
        exchange = f"{int(time.time() * 1000):011x}{secrets.token_hex(5)}"
        asked = ExchangeRow(
            id=exchange, tenant=expected.tenant, conversation=turn.placement.conversation, branch=turn.placement.branch,
            verdict="passthrough", method="GET", path=path, model=turn.conversation.model, wire=turn.fmt.name,
            is_stream=False, request_bytes=0, items=0, created_at=created, note=NOTE,
        )  # fmt: skip
        dollars = cost(usage, turn.limits.facts)
        outcome = OutcomeRow(
            exchange=exchange, status=200, outcome="ok" if reply.is_complete else "incomplete", attempts=1,
            finish=reply.finish, input=usage.input, cached=usage.cached, written=usage.written, output=usage.output,
            reasoning=usage.reasoning, cost=dollars, cost_direct=dollars, ended_at=created,
        )  # fmt: skip
        try:
            self._store.submit(Batch(exchanges=(asked,), outcomes=(outcome,))).add_done_callback(_noted)
        except StoreError as error:
            log.warning("rows_not_stored", exchange=exchange, error=str(error))


def _noted(future: asyncio.Future[None]) -> None:
    """Nobody waits for these rows; the store has reported what it could not take."""
    if not future.cancelled():
        future.exception()
