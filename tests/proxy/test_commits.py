"""Rows of one exchange: taken, refused at once, refused later, and a disk that cannot keep up."""

from __future__ import annotations

import asyncio

import pytest

from proxy import commits
from proxy.commits import Commits
from proxy.core.records import Batch, ExchangeRow
from proxy.errors import StoreError
from proxy.store.null import NullStore

ROW = ExchangeRow("e1", "t", "", "", "new", "POST", "/", "m", "chat", False, 1, 1, "")


class Deferred(NullStore):
    """Gives the future that the test holds, or refuses at once."""

    def __init__(self, answer: asyncio.Future[None] | StoreError) -> None:
        super().__init__()
        self.answer = answer

    def submit(self, batch: Batch, *, may_wait: bool = False) -> asyncio.Future[None]:
        if isinstance(self.answer, StoreError):
            raise self.answer
        return self.answer


async def test_rows_that_are_written_leave_nothing_behind() -> None:
    written = Commits(NullStore(), "e1")
    written.submit(Batch(exchanges=(ROW,)))
    await written.wait()
    assert written.unwritten == ()


async def test_who_waits_does_not_wait_for_more_to_come() -> None:
    class Held(NullStore):
        def submit(self, batch: Batch, *, may_wait: bool = False) -> asyncio.Future[None]:
            assert may_wait
            self.future = super().submit(Batch()).get_loop().create_future()
            return self.future

        def hurry(self) -> None:
            self.future.set_result(None)

    held = Commits(Held(), "e1")
    held.submit(Batch(exchanges=(ROW,)), may_wait=True)
    await held.wait()


async def test_a_store_that_refuses_at_once_or_later_leaves_the_exchange_to_be_told_again() -> None:
    at_once = Commits(Deferred(StoreError("full")), "e1")
    at_once.submit(Batch(exchanges=(ROW,)))
    await at_once.wait()
    assert at_once.unwritten == (ROW,)

    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    later = Commits(Deferred(future), "e1")
    later.submit(Batch(exchanges=(ROW,)))
    assert later.unwritten == ()
    future.set_exception(StoreError("gone"))
    await later.wait()
    assert later.unwritten == (ROW,)


async def test_a_slow_disk_holds_no_answer_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "COMMIT_S", 0.01)
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    slow = Commits(Deferred(future), "e1")
    slow.submit(Batch(exchanges=(ROW,)))
    await slow.wait()
    assert not future.done()
    future.cancel()
