"""The writer apart from any database: what it does with one that fails is in the tests of each kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store.database import Database
from proxy.store.writer import Writer
from tests.proxy.store.rows import make_body


class Refusing(Writer):
    """A database that refuses every transaction."""

    transactions = 0

    def _open(self) -> None: ...

    def _transact(self, write: Callable[[Database], None]) -> StoreError | None:
        self.transactions += 1
        return StoreError("refused")

    def _is_shared(self, error: StoreError) -> bool:
        return True


async def test_a_shared_fault_is_met_once_for_all_that_waits() -> None:
    writer = Refusing("x", 1 << 20)
    writer.start()
    futures = [writer.put(Batch(bodies=(make_body(f"{n}"),))) for n in range(20)]
    for future in futures:
        with pytest.raises(StoreError, match="refused"):
            await future
    assert writer.is_degraded
    writer.stop()
    assert writer.transactions < 40


async def test_without_an_index_there_is_nothing_to_catch_up_with() -> None:
    writer = Refusing("x", 1 << 20)
    writer.start()
    await writer.catch_up()
    writer.stop()
    with pytest.raises(StoreError, match="closed"):
        await writer.catch_up()
