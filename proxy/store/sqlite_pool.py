"""Reads a SQLite file on a few read-only connections. Knows no statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from proxy.store.database import Database
from proxy.store.pool import ReadPool
from proxy.store.sqlite_connection import connect_reader, store_error

T = TypeVar("T")


class FilePool(ReadPool):
    """Connections to one file."""

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(str(path), size)
        self._path = path

    def _connect(self) -> Database:
        return connect_reader(self._path)

    def _ask(self, connection: Database, read: Callable[[Database], T]) -> T:
        try:
            return read(connection)
        except (sqlite3.Error, ValueError) as error:
            raise store_error(error, self._path, "read") from error
