"""Daily limits of a team: counted from the bill, told in full, lifted by the next day; a fault stops nobody."""

from __future__ import annotations

import asyncio

from proxy.allowance import STALE_S, Allowance
from proxy.config import TeamConfig
from proxy.core.records import Spent
from proxy.errors import StoreError
from proxy.store.null import NullStore

DAY = 86_400.0
NOON = 1_790_000_000.0 - 1_790_000_000.0 % DAY + DAY / 2


class Bills(NullStore):
    def __init__(self, spent: Spent) -> None:
        super().__init__()
        self.spent_so_far, self.asked, self.is_away = spent, [("", "")][:0], False

    async def spent(self, tenant: str, since: str) -> Spent:
        self.asked.append((tenant, since))
        await asyncio.sleep(0)
        if self.is_away:
            raise StoreError("away")
        return self.spent_so_far


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def made(spent: Spent, **limits: float) -> tuple[Allowance, Bills, Clock]:
    store, clock = Bills(spent), Clock()
    return Allowance(TeamConfig(**limits), "team:a", store, clock), store, clock  # type: ignore[arg-type]


async def test_without_limits_the_bill_is_not_even_read() -> None:
    allowance, store, _ = made(Spent(10**9, 10**12, 1e9))
    assert await allowance.take() is None and not store.asked


async def test_requests_count_as_they_are_let_through() -> None:
    allowance, store, _ = made(Spent(7), requests_per_day=10)
    taken = await asyncio.gather(*(allowance.take() for _ in range(5)))
    assert [over is None for over in taken] == [True, True, True, False, False] and len(store.asked) == 1
    over = taken[-1]
    assert over is not None and over.wait_s == DAY / 2 + 1
    assert "10 of 10 requests" in over.message("a") and "teams.a.requests_per_day" in over.message("a")


async def test_tokens_and_dollars_are_the_bill_s() -> None:
    allowance, store, clock = made(Spent(1, 999, 2.49), tokens_per_day=1000, dollars_per_day=2.5)
    assert await allowance.take() is None
    store.spent_so_far = Spent(2, 1004, 2.49)
    assert await allowance.take() is None, "the bill of a few seconds ago"
    clock.now += STALE_S
    over = await allowance.take()
    assert over is not None and over.setting == "tokens_per_day" and "1,004 of 1,000 tokens" in over.message("a")
    store.spent_so_far = Spent(2, 10, 2.5)
    clock.now += STALE_S
    over = await allowance.take()
    assert over is not None and "$2.50 of $2.50" in over.message("a")


async def test_the_next_day_begins_with_nothing() -> None:
    allowance, store, clock = made(Spent(3), requests_per_day=3)
    assert await allowance.take() is not None
    store.spent_so_far = Spent()
    clock.now += DAY / 2
    assert await allowance.take() is None
    assert [since[:10] for _, since in store.asked] == ["2026-09-21", "2026-09-22"]


async def test_a_bill_that_cannot_be_read_stops_nobody() -> None:
    allowance, store, clock = made(Spent(3), requests_per_day=3)
    store.is_away = True
    assert await allowance.take() is None
    store.is_away = False
    clock.now += STALE_S
    assert await allowance.take() is not None
