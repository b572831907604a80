"""Reads PostgreSQL on a few connections: again after it was restarted, and at once without it while it is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from proxy.errors import StoreError
from proxy.store.database import Database
from proxy.store.pool import ReadPool
from proxy.store.postgres_connection import OutOfTimeError, PostgresDatabase, connect, is_outage, shown, store_error

READ_S = 3.0
AWAY_S = 0.5
"""After a failure to connect or to answer, reads fail at once for so long; then one at a time tries again."""

T = TypeVar("T")


class _LostError(Exception):
    """The connection died while nobody used it."""


class PostgresPool(ReadPool):
    """Connections to one database."""

    def __init__(self, url: str, size: int) -> None:
        super().__init__(shown(url), size)
        self._url = url
        self._away_until = 0.0  # 0 while it answers
        self._trying = threading.Lock()

    def _connect(self) -> Database:
        try:
            return connect(self._url, patience_s=READ_S)
        except psycopg.Error as error:
            self._away_until = time.monotonic() + AWAY_S
            raise store_error(error, self._url, "read") from error

    async def run(self, read: Callable[[Database], T]) -> T:
        if self._is_open:
            self._check_away()  # before it waits for a thread: all of them may be waiting for an answer
        return await super().run(read)

    def _run(self, read: Callable[[Database], T]) -> T:
        if not self._away_until:
            return self._read(read)
        self._check_away()
        if not self._trying.acquire(blocking=False):
            raise self._away()
        try:
            return self._read(read)
        finally:
            self._trying.release()

    def _read(self, read: Callable[[Database], T]) -> T:
        try:
            found = super()._run(read)
        except _LostError:
            self._drop_idle()
            found = super()._run(read)
        self._away_until = 0.0
        return found

    def _check_away(self) -> None:
        if self._away_until and (self._trying.locked() or time.monotonic() < self._away_until):
            raise self._away()

    def _away(self) -> StoreError:
        return StoreError(f"{self._name} is away", hint="check that the database is up and can be reached")

    def _ask(self, connection: Database, read: Callable[[Database], T]) -> T:
        assert isinstance(connection, PostgresDatabase)
        is_used, connection.is_used = connection.is_used, True
        try:
            connection.allow(READ_S)
            found = read(connection)
            connection.rest()
            return found
        except (psycopg.Error, ValueError) as error:
            if is_outage(error):
                if is_used and not isinstance(error, OutOfTimeError):
                    raise _LostError from error
                self._away_until = time.monotonic() + AWAY_S
            raise store_error(error, self._url, "read") from error
