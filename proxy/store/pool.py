"""A few threads, each read on a connection of its own. Knows no statement and no database."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from proxy.errors import StoreError
from proxy.store.database import Database

T = TypeVar("T")


class ReadPool:
    """At most `size` connections, opened when needed; a read that fails costs its connection."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="undercliff-store-reader")
        self._idle: queue.SimpleQueue[Database] = queue.SimpleQueue()
        self._is_open = True

    def _connect(self) -> Database:
        """A connection that only reads. Raises StoreError."""
        raise NotImplementedError

    def _ask(self, connection: Database, read: Callable[[Database], T]) -> T:
        """What `read` finds. Raises StoreError."""
        raise NotImplementedError

    async def run(self, read: Callable[[Database], T]) -> T:
        """What `read` returns. It must fetch all it needs: its transaction ends with it."""
        if not self._is_open:
            raise StoreError(f"the store {self._name} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, read)

    def close(self) -> None:
        """Wait for running reads, then close all connections. Blocks; idempotent."""
        self._is_open = False
        self._executor.shutdown(wait=True)
        self._drop_idle()

    def _drop_idle(self) -> None:
        while (connection := self._take()) is not None:
            connection.close()

    def _take(self) -> Database | None:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return None

    def _run(self, read: Callable[[Database], T]) -> T:
        connection = self._take() or self._connect()
        is_well = False
        try:
            result = self._ask(connection, read)
            is_well = True
        finally:
            if is_well:
                self._idle.put(connection)
            else:
                connection.close()
        return result
