"""A gate and a counter that work across threads and event loops, so that no test has to sleep."""

from __future__ import annotations

import asyncio
import threading
import time


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Counter:
    """Counts up. Anyone may wait for a value, in any loop or in none."""

    def __init__(self) -> None:
        self.value = 0
        self._condition = threading.Condition()
        self._waiters: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def add(self, step: int = 1) -> None:
        with self._condition:
            self.value += step
            self._condition.notify_all()
            ready = [w for w in self._waiters if w[0] <= self.value]
            self._waiters = [w for w in self._waiters if w[0] > self.value]
        for _, loop, future in ready:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_finish, future)

    async def wait(self, value: int = 1, timeout_s: float = 10) -> None:
        loop = asyncio.get_running_loop()
        with self._condition:
            if self.value >= value:
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((value, loop, future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            raise TimeoutError(f"counted {self.value}, waited for {value}") from None

    def wait_sync(self, value: int = 1, timeout_s: float = 10) -> None:
        end = time.monotonic() + timeout_s
        with self._condition:
            while self.value < value:
                if not self._condition.wait(end - time.monotonic()):
                    raise TimeoutError(f"counted {self.value}, waited for {value}")


class Gate:
    """Shut until opened; a step of a scripted answer may wait on it."""

    def __init__(self) -> None:
        self._count = Counter()

    def open(self) -> None:
        self._count.add()

    @property
    def is_open(self) -> bool:
        return self._count.value > 0

    async def wait(self, timeout_s: float = 60) -> None:
        await self._count.wait(1, timeout_s)

    def wait_sync(self, timeout_s: float = 60) -> None:
        self._count.wait_sync(1, timeout_s)
