"""The pool apart from any database: closed for good, and a connection that failed is not used again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from proxy.errors import StoreError
from proxy.store.database import Database
from proxy.store.pool import ReadPool
from proxy.store.sql_store import SqlStore
from proxy.store.writer import Writer

T = TypeVar("T")


class Counted(ReadPool):
    made = 0
    closed = 0

    def _connect(self) -> Database:
        self.made += 1
        return self  # type: ignore[return-value]

    def _ask(self, connection: Database, read: Callable[[Database], T]) -> T:
        return read(connection)

    def __len__(self) -> int:
        return self._idle.qsize()


async def test_a_connection_that_failed_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Counted("x", 1)
    monkeypatch.setattr(pool, "_drop_idle", lambda: None)

    def fail(database: Any) -> None:
        raise StoreError("no")

    await pool.run(lambda db: None)
    assert (pool.made, len(pool)) == (1, 1)
    with pytest.raises(StoreError):
        monkeypatch.setattr(pool, "close", lambda: None)
        await pool.run(fail)
    assert len(pool) == 0
    monkeypatch.undo()
    pool.close()
    with pytest.raises(StoreError, match="closed"):
        await pool.run(lambda db: None)


async def test_a_store_that_was_not_opened_answers_nothing() -> None:
    with pytest.raises(StoreError, match="not open"):
        await SqlStore("x", Writer("x", 1), lambda batch: None).branch("b")
