"""The Store protocol: two stores, one transaction a batch. No SQL, cursor or row leaves this package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

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


class Store(Protocol):
    """Display and working store behind one door. Every failure is a `StoreError`."""

    async def open(self) -> None:
        """Connect and migrate. Raises `StoreError` naming path and user when it cannot."""
        ...

    async def aclose(self) -> None:
        """Write what is queued, then close. Idempotent."""
        ...

    def submit(self, batch: Batch, *, may_wait: bool = False) -> asyncio.Future[None]:
        """Queue a batch at once, in order; the future is done when it is on disk, or holds a StoreError.

        `may_wait`: a moment, for another one or for `hurry`, so that both take one commit.
        """
        ...

    def hurry(self) -> None:
        """Somebody waits for what was submitted."""
        ...

    @property
    def is_degraded(self) -> bool:
        """True since the last write failed, false again after one succeeds."""
        ...

    # -- identity ------------------------------------------------------------------------------
    async def find_branches(
        self, tenant: str, keys: Sequence[tuple[str, bytes]], scope: str, limit: int = 32
    ) -> list[BranchRow]:
        """Branches of `tenant` that a (kind, key) receipt leads to, most matches first, then those of
        `scope` (when given), newest first; and the parents of those found."""
        ...

    async def branch(self, branch: str) -> BranchRow | None: ...

    async def path(self, path: str) -> tuple[str, ...]:
        """The resolved item ids of a PathRow."""
        ...

    async def items(self, conversation: str, ids: Sequence[str]) -> list[StoredItem]:
        """The named items in the order asked, without bodies; unknown ids are left out."""
        ...

    async def plan(self, plan: str) -> PlanRow | None: ...

    async def summary(self, key: str) -> SummaryRow | None: ...

    async def summary_calls(self, conversation: str | None = None) -> list[SummaryCallRow]:
        """What was asked of summarizers, oldest first."""
        ...

    async def claim(self, name: str) -> tuple[str, float] | None:
        """Who holds a claim, and until when. It is taken by a ClaimRow in a batch; the first one wins."""
        ...

    async def learned(self) -> list[LearnedRow]: ...

    async def client_keys(self) -> list[ClientKeyRow]:
        """Every team's keys, ended ones too, oldest first."""
        ...

    async def spent(self, tenant: str, since: str) -> Spent:
        """What `tenant` was billed since a UTC moment (as created_at has it)."""
        ...

    async def usage(self, since: str) -> list[TenantUsage]:
        """What every tenant was billed since a UTC moment, dearest first."""
        ...

    async def marks(self, conversation: str) -> list[MarkRow]:
        """What applications said of its items."""
        ...

    async def links(self, conversation: str) -> list[LinkRow]: ...

    # -- views ---------------------------------------------------------------------------------
    async def conversations(self, *, tenant: str | None = None, limit: int = 100) -> list[ConversationSummary]: ...

    async def transcript(self, conversation: str, *, branch: str | None = None) -> AsyncIterator[StoredItem]:
        """The display store's rows of a conversation in sequence order, bodies included."""
        ...

    async def view(self, branch: str, *, summarized: bool | None = None) -> list[StoredItem]:
        """The working store's rows of a branch: False the model's view, True the archive, None all."""
        ...

    async def branches(self, conversation: str) -> list[BranchRow]: ...

    async def exchanges(self, conversation: str) -> list[tuple[ExchangeRow, OutcomeRow | None]]: ...

    async def folds(self, conversation: str) -> list[FoldRow]: ...

    async def window(self, window: str) -> Manifest | None:
        """By window id or exchange id (its last attempt)."""
        ...

    async def windows(self, conversation: str) -> list[str]:
        """Ids of served windows, oldest first."""
        ...

    async def body(self, hash: bytes) -> bytes | None: ...

    async def find_item(self, item: str, *, tenant: str | None = None) -> list[ItemRow]:
        """Items with that id, in any conversation (of `tenant`)."""
        ...

    async def coverage(self, conversation: str, item: str) -> tuple[str, ...]:
        """Ids of the originals that a summary item stands for."""
        ...

    async def search(
        self, query: str, *, tenant: str | None = None, conversation: str | None = None, limit: int = 20
    ) -> list[tuple[StoredItem, float]]:
        """Literal full-text search; relevance 0–1 from rank."""
        ...
