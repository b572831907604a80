"""Writes an export back into a new file, row by row with its seals. Refuses what does not hold; keeps nothing then."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from proxy.errors import StoreError
from proxy.store.archive import STATE_TABLES, state_columns
from proxy.store.codec import pack
from proxy.store.rows import columns
from proxy.store.sealing import SEAL_COLUMNS
from proxy.store.seals import BY_NAME, SealedTable, to_columns
from proxy.store.signatures import signature
from proxy.store.sqlite_connection import connect_writer, store_error

T = TypeVar("T")

_TYPES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int), "BLOB": (bytes,)}

_COMMIT_ROWS = 4000
_TOUCHED = "(SELECT coalesce(max(touched), 0) + 1 FROM branches)"


class Loader:
    """A file in the making beside `path`; it gets that name only when `finish` was reached."""

    def __init__(self, path: Path, secret: bytes = b"") -> None:
        self._path = path
        self._secret = secret
        self._draft = path.with_name(f"{path.name}.importing")
        self._connection: sqlite3.Connection | None = None
        self._statements: dict[str, str] = {}
        self._pending = 0
        self._folds: dict[bytes, int] = {}

    def __enter__(self) -> Self:
        if self._path.exists() and self._path.stat().st_size and not _is_empty(self._path):
            raise StoreError(f"{self._path} holds conversations already", hint="Import into a new file: --db NEW.db")
        self._remove_draft()
        self._connection = connect_writer(self._draft, "NORMAL")
        self._run(lambda db: db.execute("BEGIN IMMEDIATE"))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._remove_draft()

    def chain(self, id: str) -> int:
        """Begin a chain; the number it has in this file."""
        self._folds.clear()
        cursor = self._run(lambda db: db.execute("INSERT INTO chains (id, length, head) VALUES (?, 0, x'')", (id,)))
        return cursor.lastrowid or 0

    def row(self, chain: int, table: SealedTable, place: int, seal: bytes, values: Sequence[Any]) -> None:
        statement = self._statement(table.name, (*table.names, *SEAL_COLUMNS))
        row = (*to_columns(table, values), chain, place, seal)
        cursor = self._run(lambda db: db.execute(statement, row))
        if cursor.rowcount != 1:
            raise StoreError(f"the export holds {table.name} row {values[0]} twice")
        self._pending += 1
        if self._pending >= _COMMIT_ROWS:
            self._pending = 0
            self._run(lambda db: db.execute("COMMIT"))
            self._run(lambda db: db.execute("BEGIN IMMEDIATE"))

    def body(self, hash: bytes, data: bytes, redacted: bytes = b"") -> None:
        statement = self._statement("bodies", ("hash", "size", "data", "redacted"))
        self._run(lambda db: db.execute(statement, (hash, len(data), pack(data), redacted)))

    def state(self, table: str, row: dict[str, Any]) -> None:
        """A working row by column name; names that this schema does not know are refused."""
        if table not in STATE_TABLES:
            raise StoreError(f"the export has rows of an unknown table {table!r}")
        known = self._run(lambda db: state_columns(db, table))
        if not row.keys() <= known.keys():
            raise StoreError(
                f"the export has unknown columns of {table}: {', '.join(sorted(row.keys() - known.keys()))}"
            )
        for name, value in row.items():
            types = (bytes,) if (table, name) == ("working", "fold") else _TYPES[known[name]]  # named by its id there
            if value is not None and type(value) not in types:
                raise StoreError(f"the export has {value!r:.40} in the column {name} of {table}")
        if table == "working":
            row = {**row, "fold": self._folds.get(row.get("fold") or b"", 0)}
        statement = self._statement(table, tuple(row))
        if table == "branches":
            names = columns((*row, "touched"))
            marks = ", ".join("?" * len(row))
            statement = f"INSERT INTO branches ({names}) VALUES ({marks}, {_TOUCHED})"  # noqa: S608 - known names
        cursor = self._run(lambda db: db.execute(statement, tuple(row.values())))
        if table == "folds":
            self._folds[row.get("id") or b""] = cursor.lastrowid or 0

    def close_chain(self, number: int, id: str, length: int, head: bytes) -> None:
        """Record the head, signed with this file's own key."""
        if length:
            statement = "UPDATE chains SET length = ?, head = ?, signature = ? WHERE number = ?"
            mark = signature(self._secret, "chain", id, length, head)
            self._run(lambda db: db.execute(statement, (length, head, mark, number)))

    def finish(self) -> None:
        """Count what is there, close the draft and give it its name."""
        self._run(lambda db: db.execute(_COUNT_SQL))
        self._run(lambda db: db.execute("COMMIT"))
        self._run(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
        self._run(lambda db: db.close())
        self._connection = None
        with self._draft.open("rb") as file:
            os.fsync(file.fileno())
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        self._draft.replace(self._path)

    def _statement(self, table: str, names: tuple[str, ...]) -> str:
        key = f"{table}:{','.join(names)}"
        if key not in self._statements:
            marks = ", ".join("?" * len(names))
            assert table in BY_NAME or table in (*STATE_TABLES, "bodies")
            self._statements[key] = f"INSERT INTO {table} ({columns(names)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608
        return self._statements[key]

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            raise StoreError(f"the store {self._path} is not open")
        try:
            return work(self._connection)
        except (sqlite3.Error, OverflowError) as error:
            raise store_error(error, self._draft, "write") from error

    def _remove_draft(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self._draft.with_name(self._draft.name + suffix).unlink(missing_ok=True)


_COUNT_SQL = (
    "UPDATE conversations SET items = (SELECT count(*) FROM messages m WHERE m.conversation = conversations.id)"
)


def _is_empty(path: Path) -> bool:
    connection = connect_writer(path)
    try:
        return not connection.execute("SELECT EXISTS (SELECT 1 FROM chains)").fetchone()[0]
    finally:
        connection.close()
