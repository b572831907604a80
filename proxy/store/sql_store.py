"""A store behind SQL: a writer, a pool of readers, and the same questions to every database. Opens nothing itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TypeVar

from proxy.core.records import (
    Batch,
    BranchRow,
    ClientKeyRow,
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
    Spent,
    StoredItem,
    SummaryCallRow,
    SummaryRow,
    TenantUsage,
)
from proxy.errors import StoreError
from proxy.store import deltas, reader, teams
from proxy.store.database import Database
from proxy.store.pool import ReadPool
from proxy.store.writer import Writer

T = TypeVar("T")


class SqlStore:
    """Display and working store in one database. A subclass says which, and how words are ranked there."""

    _ranked: reader.Ranked

    def __init__(self, name: str, writer: Writer, on_batch: Callable[[Batch], None]) -> None:
        self._name = name
        self._writer = writer
        self._on_batch = on_batch
        self._pool: ReadPool | None = None

    def _new_pool(self) -> ReadPool:
        raise NotImplementedError

    async def open(self) -> None:
        if self._pool is not None:
            return
        await asyncio.to_thread(self._writer.start)
        self._pool = self._new_pool()

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:  # readers first: the last connection to close folds a file's write-ahead log into it
            await asyncio.to_thread(pool.close)
        await asyncio.to_thread(self._writer.stop)

    def submit(self, batch: Batch, *, may_wait: bool = False) -> asyncio.Future[None]:
        self._on_batch(batch)
        return self._writer.put(batch, may_wait=may_wait)

    def hurry(self) -> None:
        self._writer.hurry()

    @property
    def is_degraded(self) -> bool:
        return self._writer.is_degraded

    async def _read(self, read: Callable[[Database], T]) -> T:
        if self._pool is None:
            raise StoreError(f"the store {self._name} is not open")
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

    async def client_keys(self) -> list[ClientKeyRow]:
        return await self._read(teams.client_keys)

    async def spent(self, tenant: str, since: str) -> Spent:
        return await self._read(lambda db: teams.spent(db, tenant, since))

    async def usage(self, since: str) -> list[TenantUsage]:
        return await self._read(lambda db: teams.usage(db, since))

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
        return await self._read(lambda db: reader.search(db, self._ranked, query, tenant, conversation, limit))


def _page(conversation: str, branch: str | None, after: int, connection: Database) -> list[StoredItem]:
    return reader.transcript_page(connection, conversation, branch, after)
