"""What a team may still use today, by what the store says it was billed. Read every few seconds, for all replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from proxy.config import TeamConfig
from proxy.core.records import Spent
from proxy.errors import StoreError
from proxy.store.base import Store

STALE_S = 5.0
"""So old may be what is known of the bill: what runs within it may go over a limit."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A limit that is reached. `wait_s` seconds until the day ends."""

    setting: str
    limit: float
    used: float
    wait_s: int

    def message(self, team: str) -> str:
        """For the client: which limit, how much, and what to do."""
        shown = f"${self.used:,.2f} of ${self.limit:,.2f}" if "dollars" in self.setting else (
            f"{self.used:,.0f} of {self.limit:,.0f} {self.setting.split('_')[0]}")  # fmt: skip
        return (
            f"team {team} has used {shown} of today (UTC). It ends in {self.wait_s} s;"
            f" raising teams.{team}.{self.setting} lifts it at once."
        )


@dataclass(slots=True)
class Allowance:
    """The daily limits of one team. Fails open: a bill that cannot be read stops nobody."""

    team: TeamConfig
    tenant: str
    store: Store
    clock: Callable[[], float] = time.time
    _spent: Spent = field(default_factory=Spent)
    _since: int = 0  # requests let through since the bill was read
    _day: str = ""
    _read_at: float = float("-inf")
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def _is_limited(self) -> bool:
        return bool(self.team.requests_per_day or self.team.tokens_per_day or self.team.dollars_per_day)

    async def take(self) -> Exceeded | None:
        """Let one more request through, or say which limit stands against it."""
        if not self._is_limited:
            return None
        await self._refresh()
        used = {
            "requests_per_day": self._spent.requests + self._since,
            "tokens_per_day": self._spent.tokens,
            "dollars_per_day": self._spent.dollars,
        }
        for setting, amount in used.items():
            limit = getattr(self.team, setting)
            if limit and amount >= limit:
                return Exceeded(setting, limit, amount, self._left())
        self._since += 1
        return None

    async def _refresh(self) -> None:
        day = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%d")
        if day == self._day and self.clock() - self._read_at < STALE_S:
            return
        async with self._reading:
            if day == self._day and self.clock() - self._read_at < STALE_S:
                return
            before = self._since
            try:
                self._spent = await self.store.spent(self.tenant, f"{day}T00:00:00.000000Z")
                self._since -= before
            except StoreError as error:
                log.warning("bill_not_read", tenant=self.tenant, error=str(error))
                if day != self._day:
                    self._spent, self._since = Spent(), 0
            self._day, self._read_at = day, self.clock()

    def _left(self) -> int:
        now = datetime.fromtimestamp(self.clock(), UTC)
        tomorrow = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        return max(1, int((tomorrow - now).total_seconds()) + 1)
