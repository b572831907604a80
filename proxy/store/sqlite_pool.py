"""A few threads, each read on its own read-only connection. Knows no statement."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from proxy.errors import StoreError
from proxy.store.sqlite_connection import connect_reader, store_error

T = TypeVar("T")


class ReadPool:
    """At most `size` connections, opened when needed; a read that fails costs its connection."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="undercliff-store-reader")
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._is_open = True

    async def run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """What `read` returns. It must fetch all it needs: its transaction ends with it."""
        if not self._is_open:
            raise StoreError(f"the store {self._path} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, read)

    def close(self) -> None:
        """Wait for running reads, then close all connections. Blocks; idempotent."""
        self._is_open = False
        self._executor.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = connect_reader(self._path)
        is_well = False
        try:
            result = read(connection)
            is_well = True
        except (sqlite3.Error, ValueError) as error:
            raise store_error(error, self._path, "read") from error
        finally:
            if is_well:
                self._idle.put(connection)
            else:
                connection.close()
        return result
