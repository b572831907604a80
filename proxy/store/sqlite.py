"""The SQLite store: one file, one writer thread, a few read-only connections. Blocks no event loop."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from proxy.core.records import Batch, StoredItem
from proxy.errors import StoreError
from proxy.store import reader
from proxy.store.secret import keep_secret, read_secret, secret_file
from proxy.store.sql_store import SqlStore
from proxy.store.sqlite_connection import Synchronous, connect_writer
from proxy.store.sqlite_pool import FilePool
from proxy.store.sqlite_writer import Writer

log = structlog.get_logger(__name__)


class SqliteStore(SqlStore):
    """Display and working store in one file. `synchronous` NORMAL trades a power cut's last commits for speed."""

    _ranked = staticmethod(reader.ranked)

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "FULL",
        max_queue_bytes: int = 64 << 20,
        readers: int = 4,
        on_batch: Callable[[Batch], None] = lambda batch: None,
        prepare: Callable[[Batch], Batch] | None = None,
    ) -> None:
        self._path = Path(path)
        self._readers = readers
        connect = partial(connect_writer, self._path, synchronous)
        writer = Writer(connect, self._path, max_queue_bytes, prepare, partial(_secret_of, self._path))
        super().__init__(str(path), writer, on_batch)

    def _new_pool(self) -> FilePool:
        return FilePool(self._path, self._readers)

    async def search(
        self, query: str, *, tenant: str | None = None, conversation: str | None = None, limit: int = 20
    ) -> list[tuple[StoredItem, float]]:
        with contextlib.suppress(StoreError):  # what is indexed can be searched even when the disk is full
            await self._writer.catch_up()
        return await super().search(query, tenant=tenant, conversation=conversation, limit=limit)


def _secret_of(path: Path) -> bytes:
    """The key beside the file. Only a new file gets one: beside a copy, another key would disown all its heads."""
    try:
        return read_secret(path) if path.exists() else keep_secret(secret_file(path))
    except OSError as error:
        if os.access(path.parent, os.W_OK):  # else the store itself cannot be opened, and says so
            log.warning("store_unsigned", path=str(path), error=str(error))
        return b""
