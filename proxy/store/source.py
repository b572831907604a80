"""Where an audit reads: a SQLite file, or a PostgreSQL database by its URL. Opens connections; knows no statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from proxy.errors import StoreError
from proxy.store.database import Database
from proxy.store.migrations import MIGRATIONS, version_of
from proxy.store.open import file_of, is_postgres, postgres_module
from proxy.store.secret import read_secret
from proxy.store.sqlite_connection import connect_reader, store_error

T = TypeVar("T")

Place = Path | str
"""A file, or a URL."""


class Source(Protocol):
    """One store, for reading. `name` is what messages call it."""

    @property
    def name(self) -> str: ...

    def connect(self) -> Database:
        """A connection that reads a schema of this version. Raises StoreError."""
        ...

    def read(self, database: Database, read: Callable[[Database], T]) -> T:
        """What `read` finds, in one short transaction. Raises StoreError."""
        ...

    def faults(self, database: Database) -> list[str]:
        """What the database itself finds wrong."""
        ...

    @property
    def secret(self) -> bytes:
        """The key that its heads are signed with, where it is known here."""
        ...


def source_of(place: Place) -> Source:
    """The source at a place. Raises ConfigError for a URL of neither kind, or without the extra."""
    if isinstance(place, str) and is_postgres(place):
        source: Source = postgres_module("postgres_source").PostgresSource(place)
        return source
    file = file_of(str(place))
    return FileSource(file if file is not None else Path(place))


class FileSource:
    """A SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def secret(self) -> bytes:
        return read_secret(self.path)

    def connect(self) -> Database:
        if not self.path.exists():
            raise StoreError(f"there is no store at {self.path}", hint="Name one with --db.")
        database: Database = connect_reader(self.path)
        is_ours = False
        try:
            found = self.read(database, version_of)
            is_ours = found == len(MIGRATIONS)
        finally:
            if not is_ours:
                database.close()
        if not is_ours:
            raise StoreError(
                f"{self.path} has schema {found}, this undercliff reads {len(MIGRATIONS)}",
                hint="An older file is brought up to date by starting the server, or any view, on it.",
            )
        return database

    def read(self, database: Database, read: Callable[[Database], T]) -> T:
        try:
            return read(database)
        except (sqlite3.Error, ValueError) as error:
            raise store_error(error, self.path, "read") from error

    def faults(self, database: Database) -> list[str]:
        found = self.read(database, lambda db: db.execute("PRAGMA integrity_check(20)").fetchall())
        return [row[0] for row in found if row[0] != "ok"]
