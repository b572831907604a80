"""Writes to a SQLite file: one connection, group commit. The full-text index follows behind: in bulk, when idle,
or when a search asks.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store import writer
from proxy.store.database import Database
from proxy.store.sqlite_connection import BUSY_TIMEOUT_S, set_busy_timeout, store_error
from proxy.store.sqlite_index import index_some

_INDEX_BYTES = 1 << 20  # texts that wait for the index; a row counts as a page of text
_INDEX_ROW_BYTES = 4096
_LARGE_WAL_BYTES = 256 << 20
# What one batch's own content can cause, beside what the database says: numbers and types it cannot hold.
_FAILURES = (sqlite3.Error, StoreError, OSError, ValueError, TypeError, OverflowError, MemoryError)
_SHARED_FAULT = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
_FINE_CONNECTION = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CONSTRAINT}

log = structlog.get_logger(__name__)


class Writer(writer.Writer):
    """Owns the writing connection of a file."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        path: Path,
        max_queue_bytes: int,
        prepare: Callable[[Batch], Batch] | None = None,
        secret_of: Callable[[], bytes] = bytes,
    ) -> None:
        super().__init__(str(path), max_queue_bytes, prepare, secret_of)
        self._connect = connect
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._unindexed_bytes = 0
        self._has_wal = False

    def _open(self) -> None:
        self._connection = self._connect()

    def _is_shared(self, error: StoreError) -> bool:
        code: int = getattr(error.__cause__, "sqlite_errorcode", sqlite3.SQLITE_OK)
        return code & 0xFF in _SHARED_FAULT

    def _written(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            self._unindexed_bytes += sum(_INDEX_ROW_BYTES + len(item.text) for item in (*batch.items, *batch.replies))
            self._unindexed_bytes += _INDEX_ROW_BYTES * len(batch.folds)

    def _has_chores(self) -> bool:
        return self._has_wal or self._unindexed_bytes > 0

    def _chores(self, searchers: Sequence[asyncio.Future[None]], *, is_idle: bool) -> None:
        if searchers or self._unindexed_bytes >= (1 if is_idle else _INDEX_BYTES):
            writer.tell(searchers, self._index())
        if is_idle and self._is_open:
            self._tidy()

    def _index(self) -> StoreError | None:
        """Bring the index up to date, step by step: between two steps waiting batches are written."""
        has_more = True

        def step(connection: Database) -> None:
            nonlocal has_more
            has_more = index_some(connection)

        while has_more:
            error = self._transact(step)
            if error is not None:
                return error
            if jobs := self._waiting():
                self._write(jobs)
        self._unindexed_bytes = 0
        return None

    def _transact(self, write: Callable[[Database], None]) -> StoreError | None:
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

    def _shut(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _named(error: BaseException, path: Path) -> StoreError:
    ours = store_error(error, path, "write")
    ours.__cause__ = error
    return ours
