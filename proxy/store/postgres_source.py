"""A PostgreSQL database as a place that an audit reads. Knows no statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg

from proxy.errors import StoreError
from proxy.store.database import Database
from proxy.store.postgres_connection import PostgresDatabase, connect_ready, shown, store_error

READ_S = 120.0

T = TypeVar("T")


class PostgresSource:
    """A database by its URL. Its key is known to the servers alone, or named to the command."""

    secret = b""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def name(self) -> str:
        return shown(self._url)

    def connect(self) -> Database:
        return connect_ready(self._url)

    def read(self, database: Database, read: Callable[[Database], T]) -> T:
        assert isinstance(database, PostgresDatabase)
        try:
            database.allow(READ_S)
            found = read(database)
            database.rest()
            return found
        except (psycopg.Error, ValueError) as error:
            if database.is_closed:
                raise StoreError(f"the connection to {self.name} was lost", hint="Run the command again.") from error
            database.rest(is_good=False)
            raise store_error(error, self._url, "read") from error

    def faults(self, database: Database) -> list[str]:
        """What PostgreSQL finds wrong with its files it says by itself: see its amcheck and checksums."""
        return []
