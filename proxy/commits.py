"""One exchange's way to the store: queue rows, wait for the disk, remember what did not get there."""

from __future__ import annotations

import asyncio

import structlog

from proxy.core.records import Batch, ExchangeRow
from proxy.errors import StoreError
from proxy.live import Live
from proxy.store.base import Store

log = structlog.get_logger()

COMMIT_S = 5.0
"""A reply waits this long for the store; after that it goes on, and the gap is recorded."""


class Commits:
    """The batches of one exchange. `unwritten` are exchange rows that the store did not take."""

    def __init__(self, store: Store, exchange: str) -> None:
        self._store = store
        self._exchange = exchange
        self._pending: list[asyncio.Future[None]] = []
        self.unwritten: tuple[ExchangeRow, ...] = ()

    def submit(self, batch: Batch, live: Live | None = None, *, may_wait: bool = False) -> None:
        """Hand rows to the store. What it does not take is remembered: later rows must not build on them.

        `may_wait`: more is to come soon, or `wait` is called before anybody is told of these.
        """
        try:
            future = self._store.submit(batch, may_wait=may_wait)
        except StoreError as error:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        future.add_done_callback(lambda done: self._lost(batch, live) if _has_failed(done) else None)
        self._pending.append(future)

    def _lost(self, batch: Batch, live: Live | None) -> None:
        self.unwritten = (*self.unwritten, *batch.exchanges)
        if live is not None:
            live.lose(batch)

    async def wait(self) -> None:
        """Wait until all that was submitted is on disk; a store that cannot keep up does not stop the answer."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        self._store.hurry()
        done, late = await asyncio.wait(pending, timeout=COMMIT_S)
        if late:
            log.warning("store_slow", exchange=self._exchange, waited_s=COMMIT_S)
        for future in done:
            if isinstance(error := future.exception(), StoreError):
                log.warning("rows_not_stored", exchange=self._exchange, error=str(error))


def _has_failed(future: asyncio.Future[None]) -> bool:
    """Also takes note of a failure that nobody waits for: the store has reported it."""
    return not future.cancelled() and future.exception() is not None
