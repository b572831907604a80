"""The SQLite store: one file, one writer thread, a few read-only connections. Blocks no event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from proxy.core.records import (
    Batch,
    BranchRow,
    ConversationSummary,
    ExchangeRow,
    FoldRow,
    ItemRow,
    LearnedRow,
    LinkRow,
    Manifest,
    MarkRow,
    OutcomeRow,
    PlanRow,
    StoredItem,
    SummaryCallRow,
    SummaryRow,
)
from proxy.errors import StoreError
from proxy.store import deltas, reader
from proxy.store.secret import keep_secret, read_secret, secret_file
from proxy.store.sqlite_connection import Synchronous, connect_writer
from proxy.store.sqlite_pool import ReadPool
from proxy.store.sqlite_writer import Writer

T = TypeVar("T")

log = structlog.get_logger(__name__)


class SqliteStore:
    """Display and working store in one file. `synchronous` NORMAL trades a power cut's last commits for speed."""

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
        self._on_batch = on_batch
        connect = partial(connect_writer, self._path, synchronous)
        self._writer = Writer(connect, self._path, max_queue_bytes, prepare, partial(_secret_of, self._path))
        self._pool: ReadPool | None = None

    async def open(self) -> None:
        if self._pool is not None:
            return
        await asyncio.to_thread(self._writer.start)
        self._pool = ReadPool(self._path, self._readers)

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:  # readers first: the last connection to close folds the write-ahead log into the file
            await asyncio.to_thread(pool.close)
        await asyncio.to_thread(self._writer.stop)

    def submit(self, batch: Batch) -> asyncio.Future[None]:
        self._on_batch(batch)
        return self._writer.put(batch)

    @property
    def is_degraded(self) -> bool:
        return self._writer.is_degraded

    async def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        if self._pool is None:
            raise StoreError(f"the store {self._path} is not open")
        return await self._pool.run(read)

    # -- identity ------------------------------------------------------------------------------
    async def find_branches(
        self, tenant: str, keys: Sequence[tuple[str, bytes]], scope: str, limit: int = 32
    ) -> list[BranchRow]:
        return await self._read(lambda db: reader.find_branches(db, tenant, keys, scope, limit))

    async def branch(self, branch: str) -> BranchRow | None:
        return await self._read(lambda db: reader.branch(db, branch))

    async def path(self, path: str) -> tuple[str, ...]:
        return await self._read(lambda db: deltas.path(db, path))

    async def items(self, conversation: str, ids: Sequence[str]) -> list[StoredItem]:
        return await self._read(lambda db: reader.items(db, conversation, ids))

    async def plan(self, plan: str) -> PlanRow | None:
        return await self._read(lambda db: reader.plan(db, plan))

    async def summary(self, key: str) -> SummaryRow | None:
        return await self._read(lambda db: reader.summary(db, key))

    async def summary_calls(self, conversation: str | None = None) -> list[SummaryCallRow]:
        return await self._read(lambda db: reader.summary_calls(db, conversation))

    async def claim(self, name: str) -> tuple[str, float] | None:
        return await self._read(lambda db: reader.claim(db, name))

    async def learned(self) -> list[LearnedRow]:
        return await self._read(reader.learned)

    async def marks(self, conversation: str) -> list[MarkRow]:
        return await self._read(lambda db: reader.marks(db, conversation))

    async def links(self, conversation: str) -> list[LinkRow]:
        return await self._read(lambda db: reader.links(db, conversation))

    # -- views ---------------------------------------------------------------------------------
    async def conversations(self, *, tenant: str | None = None, limit: int = 100) -> list[ConversationSummary]:
        return await self._read(lambda db: reader.conversations(db, tenant, limit))

    async def transcript(self, conversation: str, *, branch: str | None = None) -> AsyncIterator[StoredItem]:
        """Page by page, each its own short transaction, so that a slow export holds nothing up.

        With `branch`, the originals on that branch's path, whichever branch first brought them.
        """
        return self._pages(conversation, branch)

    async def _pages(self, conversation: str, branch: str | None) -> AsyncIterator[StoredItem]:
        after = 0
        while page := await self._read(partial(_page, conversation, branch, after)):
            for stored in page:
                yield stored
            after = page[-1].seq

    async def view(self, branch: str, *, summarized: bool | None = None) -> list[StoredItem]:
        return await self._read(lambda db: reader.view(db, branch, summarized))

    async def branches(self, conversation: str) -> list[BranchRow]:
        return await self._read(lambda db: reader.branches(db, conversation))

    async def exchanges(self, conversation: str) -> list[tuple[ExchangeRow, OutcomeRow | None]]:
        return await self._read(lambda db: reader.exchanges(db, conversation))

    async def folds(self, conversation: str) -> list[FoldRow]:
        return await self._read(lambda db: reader.folds(db, conversation))

    async def window(self, window: str) -> Manifest | None:
        return await self._read(lambda db: deltas.window(db, window))

    async def windows(self, conversation: str) -> list[str]:
        return await self._read(lambda db: reader.windows(db, conversation))

    async def body(self, hash: bytes) -> bytes | None:
        return await self._read(lambda db: reader.body(db, hash))

    async def find_item(self, item: str, *, tenant: str | None = None) -> list[ItemRow]:
        return await self._read(lambda db: reader.find_item(db, item, tenant))

    async def coverage(self, conversation: str, item: str) -> tuple[str, ...]:
        return await self._read(lambda db: reader.coverage(db, conversation, item))

    async def search(
        self, query: str, *, tenant: str | None = None, conversation: str | None = None, limit: int = 20
    ) -> list[tuple[StoredItem, float]]:
        with contextlib.suppress(StoreError):  # what is indexed can be searched even when the disk is full
            await self._writer.catch_up()
        return await self._read(lambda db: reader.search(db, query, tenant, conversation, limit))


def _secret_of(path: Path) -> bytes:
    """The key beside the file. Only a new file gets one: beside a copy, another key would disown all its heads."""
    try:
        return read_secret(path) if path.exists() else keep_secret(secret_file(path))
    except OSError as error:
        if os.access(path.parent, os.W_OK):  # else the store itself cannot be opened, and says so
            log.warning("store_unsigned", path=str(path), error=str(error))
        return b""


def _page(conversation: str, branch: str | None, after: int, connection: sqlite3.Connection) -> list[StoredItem]:
    return reader.transcript_page(connection, conversation, branch, after)
