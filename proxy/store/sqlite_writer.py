"""The one thread that writes: takes all that is queued, commits it as one transaction, then tells those who wait.

A failure reaches the waiting futures as a StoreError and is never raised here; the next batch tries anew.
The full-text index follows behind: in bulk, when idle, or when a search asks.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import structlog

from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store.codec import batch_bytes
from proxy.store.sqlite_connection import BUSY_TIMEOUT_S, set_busy_timeout, store_error
from proxy.store.sqlite_index import index_some
from proxy.store.sqlite_rows import cleaned, write_batch, write_gap

_IDLE_S = 1.0
_INDEX_BYTES = 1 << 20  # texts that wait for the index; a row counts as a page of text
_INDEX_ROW_BYTES = 4096
_LARGE_WAL_BYTES = 256 << 20
# What one batch's own content can cause, beside what the database says: numbers and types it cannot hold.
_FAILURES = (sqlite3.Error, StoreError, OSError, ValueError, TypeError, OverflowError, MemoryError)
_SHARED_FAULT = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
_FINE_CONNECTION = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CONSTRAINT}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    batch: Batch
    size: int
    future: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class _Gap:
    """Batches that were refused or lost since the last successful write."""

    started_at: str
    batches: int
    reason: str


class Writer:
    """Owns the writing connection. `put` is called on the event loop and never blocks it."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        path: Path,
        max_queue_bytes: int,
        prepare: Callable[[Batch], Batch] | None = None,
        secret_of: Callable[[], bytes] = bytes,
    ) -> None:
        self._connect = connect
        self._path = path
        self._max_queue_bytes = max_queue_bytes
        self._prepare = prepare  # what a batch goes through before it is written, on the writer's thread
        self._secret_of = secret_of  # the key that heads are signed with
        self._secret = b""
        self._connection: sqlite3.Connection | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._queue: list[_Job] = []
        self._queued_bytes = 0  # what is waiting and what is being written
        self._searchers: list[asyncio.Future[None]] = []
        self._unindexed_bytes = 0
        self._is_open = False
        self._gap: _Gap | None = None
        self._has_wal = False
        self.is_degraded = False

    def start(self) -> None:
        """Connect, migrate and start the thread. Blocks; raises StoreError."""
        self._secret = self._secret_of()  # before there is a file: then a new one gets a key
        self._connection = self._connect()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name="undercliff-store-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is queued, then close. Blocks; idempotent."""
        with self._changed:
            self._is_open = False
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def put(self, batch: Batch) -> asyncio.Future[None]:
        """Queue a batch; over the bound it is refused at once, but a lone batch of any size is taken."""
        future = asyncio.get_running_loop().create_future()
        size = batch_bytes(batch)
        with self._changed:
            if not self._is_open:
                _resolve([future], StoreError(f"the store {self._path} is closed"))
            elif self._queued_bytes and self._queued_bytes + size > self._max_queue_bytes:
                error = StoreError(f"cannot keep up writing {self._path}: {self._queued_bytes >> 20} MiB are waiting")
                self._note_gap(1, str(error))
                _resolve([future], error)
            else:
                self._queued_bytes += size
                self._queue.append(_Job(batch, size, future))
                self._changed.notify()
        return future

    def catch_up(self) -> asyncio.Future[None]:
        """Done when the index holds all that is written; a StoreError when it cannot be brought there."""
        future = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._is_open:
                self._searchers.append(future)
                self._changed.notify()
            else:
                _resolve([future], StoreError(f"the store {self._path} is closed"))
        return future

    # -- the thread ------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            while (work := self._take()) is not None:
                jobs, searchers = work
                if jobs:
                    self._write(jobs)
                is_idle = not jobs and not searchers
                if searchers or self._unindexed_bytes >= (1 if is_idle else _INDEX_BYTES):
                    _tell(searchers, self._index())
                if is_idle:
                    self._tidy()
            if self._gap is not None:
                self._commit(())
            if self._unindexed_bytes:
                self._index()
        finally:
            self._close()

    def _take(self) -> tuple[Sequence[_Job], Sequence[asyncio.Future[None]]] | None:
        """All that is queued; nothing after an idle while with something to tidy; None at the end."""
        with self._changed:
            while not self._queue and not self._searchers:
                if not self._is_open:
                    return None
                has_work = self._gap is not None or self._has_wal or self._unindexed_bytes > 0
                if not self._changed.wait(_IDLE_S if has_work else None) and has_work:
                    return (), ()
            jobs, self._queue = self._queue, []
            searchers, self._searchers = self._searchers, []
            return jobs, searchers

    def _write(self, jobs: Sequence[_Job]) -> None:
        """One transaction; when it fails, one for each batch, so that a bad one fails alone."""
        error = self._commit([job.batch for job in jobs])
        if error is None or len(jobs) == 1 or _is_shared(error):
            self._settle(jobs, error)
            return
        for job in jobs:
            self._settle([job], self._commit([job.batch]))

    def _commit(self, batches: Sequence[Batch]) -> StoreError | None:
        with self._changed:
            gap, self._gap = self._gap, None
        if self._prepare is not None:
            batches = [self._prepare(batch) for batch in batches]
        error = self._transact(partial(_write_rows, batches, gap, self._secret))
        if error is not None and isinstance(error.__cause__, UnicodeEncodeError):
            batches = [cleaned(batch) for batch in batches]
            error = self._transact(partial(_write_rows, batches, gap, self._secret))
        if error is not None:
            self._restore_gap(gap)
            return error
        for batch in batches:
            self._unindexed_bytes += sum(_INDEX_ROW_BYTES + len(item.text) for item in (*batch.items, *batch.replies))
            self._unindexed_bytes += _INDEX_ROW_BYTES * len(batch.folds)
        if self.is_degraded:
            log.info("store_recovered", path=str(self._path), lost_batches=gap.batches if gap else 0)
        self.is_degraded = False
        return None

    def _index(self) -> StoreError | None:
        """Bring the index up to date, step by step: between two steps waiting batches are written."""
        has_more = True

        def step(connection: sqlite3.Connection) -> None:
            nonlocal has_more
            has_more = index_some(connection)

        while has_more:
            error = self._transact(step)
            if error is not None:
                return error
            with self._changed:
                jobs, self._queue = self._queue, []
            if jobs:
                self._write(jobs)
        self._unindexed_bytes = 0
        return None

    def _transact(self, write: Callable[[sqlite3.Connection], None]) -> StoreError | None:
        try:
            connection = self._connection = self._connection or self._connect()
            connection.execute("BEGIN IMMEDIATE")
            write(connection)
            connection.execute("COMMIT")
        except _FAILURES as error:
            self._roll_back(error)
            return error if isinstance(error, StoreError) else _named(error, self._path)
        self._has_wal = True
        return None

    def _roll_back(self, error: BaseException) -> None:
        """Undo, and after anything that may have hurt the connection itself, start with a new one."""
        connection, code = self._connection, getattr(error, "sqlite_errorcode", None)
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if code is None or code & 0xFF in _FINE_CONNECTION:
                return
        except sqlite3.Error as second:
            log.warning("store_rollback_failed", path=str(self._path), error=str(second))
        self._connection = None
        connection.close()

    def _settle(self, jobs: Sequence[_Job], error: StoreError | None) -> None:
        if error is not None and not self.is_degraded:
            log.error("store_failed", path=str(self._path), error=str(error), hint=error.hint)
        with self._changed:
            self._queued_bytes -= sum(job.size for job in jobs)
            if error is not None:
                self._note_gap(len(jobs), str(error))
        _tell([job.future for job in jobs], error)

    def _note_gap(self, batches: int, reason: str) -> None:
        """Call it with the lock held."""
        gap = self._gap or _Gap(_now(), 0, reason)
        self._gap = replace(gap, batches=gap.batches + batches)
        self.is_degraded = True

    def _restore_gap(self, gap: _Gap | None) -> None:
        """Put back what was not recorded, with what has come since."""
        if gap is None:
            return
        with self._changed:
            newer = self._gap.batches if self._gap else 0
            self._gap = replace(gap, batches=gap.batches + newer)

    def _tidy(self) -> None:
        """Idle: see whether writing works again, and give the write-ahead log's space back."""
        if self._gap is not None:
            self._commit(())
            return
        connection = self._connection
        if connection is None:
            self._has_wal = False
            return
        try:
            set_busy_timeout(connection, 0)  # a reader in the middle must not hold up the next batch
            is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            set_busy_timeout(connection, BUSY_TIMEOUT_S)
        except sqlite3.Error as error:
            log.warning("store_checkpoint_failed", path=str(self._path), error=str(error))
            return
        self._has_wal = bool(is_busy)
        if is_busy:
            self._warn_if_large()

    def _warn_if_large(self) -> None:
        wal = self._path.with_name(self._path.name + "-wal")
        size = wal.stat().st_size if wal.exists() else 0
        if size > _LARGE_WAL_BYTES:
            log.warning("store_log_large", path=str(wal), size_bytes=size, hint="a reader holds a transaction open")

    def _close(self) -> None:
        """The thread ends: nobody may be left waiting, whatever ended it."""
        with self._changed:
            self._is_open = False
            jobs, self._queue = self._queue, []
            searchers, self._searchers = self._searchers, []
        error = StoreError(f"the store {self._path} was closed")
        if jobs:
            self._settle(jobs, error)
        _tell(searchers, error)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _write_rows(batches: Sequence[Batch], gap: _Gap | None, secret: bytes, connection: sqlite3.Connection) -> None:
    for batch in batches:
        write_batch(connection, batch, secret)
    if gap is not None:
        write_gap(connection, gap.started_at, _now(), gap.batches, gap.reason, secret)


def _tell(futures: Sequence[asyncio.Future[None]], error: StoreError | None) -> None:
    """Resolve futures on their own loops, one call for each loop."""
    for loop in {future.get_loop() for future in futures}:
        theirs = [future for future in futures if future.get_loop() is loop]
        try:
            loop.call_soon_threadsafe(_resolve, theirs, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            log.debug("store_waiters_gone", futures=len(theirs))


def _resolve(futures: Sequence[asyncio.Future[None]], error: StoreError | None) -> None:
    for future in futures:
        if future.done():  # cancelled by the one who waited; the rows are on disk all the same
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # seen: a caller that does not wait learns it from `is_degraded`


def _named(error: BaseException, path: Path) -> StoreError:
    ours = store_error(error, path, "write")
    ours.__cause__ = error
    return ours


def _is_shared(error: StoreError) -> bool:
    """A fault that each batch would only meet again, after the same wait."""
    code: int = getattr(error.__cause__, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in _SHARED_FAULT


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
