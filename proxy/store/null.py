"""A store that keeps nothing and never fails, for running without one. Every answer is "not known"."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

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


class NullStore:
    """Takes every batch and forgets it."""

    is_degraded = False

    def __init__(self, *, on_batch: Callable[[Batch], None] = lambda batch: None) -> None:
        self._on_batch = on_batch

    async def open(self) -> None: ...

    async def aclose(self) -> None: ...

    def hurry(self) -> None:
        pass

    def submit(self, batch: Batch, *, may_wait: bool = False) -> asyncio.Future[None]:
        self._on_batch(batch)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    async def find_branches(
        self, tenant: str, keys: Sequence[tuple[str, bytes]], scope: str, limit: int = 32
    ) -> list[BranchRow]:
        return []

    async def branch(self, branch: str) -> BranchRow | None:
        return None

    async def path(self, path: str) -> tuple[str, ...]:
        return ()

    async def items(self, conversation: str, ids: Sequence[str]) -> list[StoredItem]:
        return []

    async def plan(self, plan: str) -> PlanRow | None:
        return None

    async def summary(self, key: str) -> SummaryRow | None:
        return None

    async def summary_calls(self, conversation: str | None = None) -> list[SummaryCallRow]:
        return []

    async def claim(self, name: str) -> tuple[str, float] | None:
        return None

    async def learned(self) -> list[LearnedRow]:
        return []

    async def client_keys(self) -> list[ClientKeyRow]:
        return []

    async def spent(self, tenant: str, since: str) -> Spent:
        return Spent()

    async def usage(self, since: str) -> list[TenantUsage]:
        return []

    async def marks(self, conversation: str) -> list[MarkRow]:
        return []

    async def links(self, conversation: str) -> list[LinkRow]:
        return []

    async def conversations(self, *, tenant: str | None = None, limit: int = 100) -> list[ConversationSummary]:
        return []

    async def transcript(self, conversation: str, *, branch: str | None = None) -> AsyncIterator[StoredItem]:
        return _nothing()

    async def view(self, branch: str, *, summarized: bool | None = None) -> list[StoredItem]:
        return []

    async def branches(self, conversation: str) -> list[BranchRow]:
        return []

    async def exchanges(self, conversation: str) -> list[tuple[ExchangeRow, OutcomeRow | None]]:
        return []

    async def folds(self, conversation: str) -> list[FoldRow]:
        return []

    async def window(self, window: str) -> Manifest | None:
        return None

    async def windows(self, conversation: str) -> list[str]:
        return []

    async def body(self, hash: bytes) -> bytes | None:
        return None

    async def find_item(self, item: str, *, tenant: str | None = None) -> list[ItemRow]:
        return []

    async def coverage(self, conversation: str, item: str) -> tuple[str, ...]:
        return ()

    async def search(
        self, query: str, *, tenant: str | None = None, conversation: str | None = None, limit: int = 20
    ) -> list[tuple[StoredItem, float]]:
        return []


async def _nothing() -> AsyncIterator[StoredItem]:
    nothing: tuple[StoredItem, ...] = ()
    for stored in nothing:
        yield stored
