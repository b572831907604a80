"""Copies a whole SQLite store into PostgreSQL, page by page: rows as they lie, with their seals and numbers.

Broken off, it goes on where it was: each page and the place behind it are one transaction. Until all of it is
there and compared, no server opens the target.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from proxy.errors import StoreError
from proxy.store import signatures
from proxy.store.codec import unpack_text
from proxy.store.database import Database, stream
from proxy.store.postgres_connection import PostgresDatabase, connect_ready, store_error
from proxy.store.postgres_schema import sums, unsums
from proxy.store.postgres_search import add
from proxy.store.rows import columns
from proxy.store.sqlite_connection import connect_reader
from proxy.store.sqlite_connection import store_error as file_error

PAGE_ROWS = 500
_PAGE_BYTES = 4 << 20
_PATIENCE_S = 600.0

# Tables and the key that they are read in order of. Rows of the second kind may have changed since a run that was
# broken off, so they are read from their beginning again.
_GROWING = {
    "bodies": ("seq",),
    **dict.fromkeys(("exchanges", "messages", "paths", "plans", "windows", "summaries", "outcomes"), ("seq",)),
    **dict.fromkeys(("gaps", "summary_calls", "redactions", "folds", "tombstones"), ("seq",)),
    "branch_numbers": ("number",),
    "links": ("conversation", "a", "type", "b"),
    "keys": ("tenant", "kind", "key", "branch"),
    "token_counts": ("body", "tokenizer"),
}
_CHANGING = {
    "working": ("seq",),
    "branches": ("rowid",),
    "conversations": ("rowid",),
    "chains": ("number",),
    "learned": ("upstream", "model", "name"),
    "claims": ("name",),
    "marks": ("conversation", "item", "name"),
    "client_keys": ("id",),
}
TABLES = {**_GROWING, **_CHANGING}
_UNIQUE = {"working": "branch, seq", "branches": "id", "conversations": "id"}

_PROGRESS = "CREATE TABLE undercliff_moving (source TEXT NOT NULL, name TEXT NOT NULL, place BYTEA, PRIMARY KEY (name))"

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode


@dataclass(frozen=True, slots=True)
class Compared:
    """One table on both sides: how many rows, and whether each of them is the same."""

    table: str
    rows: int
    is_same: bool


@dataclass(frozen=True, slots=True)
class _Page:
    rows: list[tuple[Any, ...]]
    last: tuple[Any, ...]


def move(
    path: Path, url: str, *, secret: bytes, on_rows: Callable[[str, int], None] = lambda table, rows: None
) -> None:
    """Copy what is not there yet. Raises StoreError; then the same call goes on."""
    with closing(_reader(path)) as source, closing(connect_ready(url, is_moving=True)) as target:
        try:
            target.allow(_PATIENCE_S)
            _begin(target, path, secret)
            for table, key in TABLES.items():
                start = _place(target, table) if table in _GROWING else None
                for page in _pages(source, table, key, start):
                    target.allow(_PATIENCE_S)
                    _write(target, table, page)
                    on_rows(table, len(page.rows))
            _number_on(target, source)
        except psycopg.Error as error:
            raise store_error(error, url, "write") from error
        except sqlite3.Error as error:
            raise file_error(error, path, "read") from error


def compare(path: Path, url: str) -> Iterator[Compared]:
    """Every row of every table on both sides, in one order."""
    with closing(_reader(path)) as source, closing(connect_ready(url, is_moving=True)) as target:
        for table, key in TABLES.items():
            ours, theirs = blake2b(), blake2b()
            counts = [_told(source, table, key, ours), _told(target, table, key, theirs)]
            yield Compared(table, counts[0], counts[0] == counts[1] and ours.digest() == theirs.digest())


def finish(url: str) -> None:
    """The store may be opened from now on: what keeps its sums is back."""
    with closing(connect_ready(url, is_moving=True)) as target:
        target.allow(_PATIENCE_S)
        target.execute("BEGIN")
        for statement in sums():
            target.execute(statement)
        target.execute("DROP TABLE undercliff_moving")
        target.execute("COMMIT")
        target.execute("ANALYZE")


def size(path: Path) -> int:
    """Rows to copy, for a progress bar."""
    with closing(_reader(path)) as source:
        return sum(source.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)  # noqa: S608


def _reader(path: Path) -> sqlite3.Connection:
    """The file as it is at one moment, even while a server writes to it."""
    connection = connect_reader(path)
    connection.execute("BEGIN")
    return connection


def _begin(target: PostgresDatabase, path: Path, secret: bytes) -> None:
    """Mark the target as being filled from this file, and stop what would count rows a second time."""
    source = str(path.resolve())
    if target.execute("SELECT to_regclass('undercliff_moving') IS NOT NULL").fetchone()[0]:
        found = target.execute("SELECT source FROM undercliff_moving LIMIT 1").fetchone()
        if found is not None and found[0] != source:
            raise StoreError(f"the target is half filled from {found[0]}", hint="Go on with that file, or start anew.")
        return
    if target.execute("SELECT EXISTS (SELECT 1 FROM chains)").fetchone()[0]:
        raise StoreError("the target holds conversations already", hint="Name a new database.")
    target.execute("BEGIN")
    for statement in unsums():
        target.execute(statement)
    target.execute(_PROGRESS)
    target.execute("INSERT INTO undercliff_moving (source, name) VALUES (?, '')", (source,))
    mark = signatures.signature(secret, "store", "key")
    target.execute("UPDATE undercliff_schema SET mark = ?", (mark,))
    target.execute("COMMIT")


def _place(target: Database, table: str) -> tuple[Any, ...] | None:
    """Behind which row to go on."""
    row = target.execute("SELECT place FROM undercliff_moving WHERE name = ?", (table,)).fetchone()
    return None if row is None else tuple(_decode(row[0]))


def _pages(source: Database, table: str, key: tuple[str, ...], after: tuple[Any, ...] | None) -> Iterator[_Page]:
    names = _names(source, table)
    order, marks = columns(key), ", ".join("?" * len(key))
    front = f"SELECT {columns(names)} FROM {table}"  # noqa: S608 - our own names
    at = [names.index(name) for name in key]
    while True:
        where = "" if after is None else f" WHERE ({order}) > ({marks})"
        cursor = source.execute(f"{front}{where} ORDER BY {order} LIMIT {PAGE_ROWS}", after or ())
        rows, length = list[tuple[Any, ...]](), 0
        for row in cursor:
            rows.append(row)
            length += sum(len(value) for value in row if isinstance(value, bytes | str))
            if length >= _PAGE_BYTES:
                break
        cursor.close()
        if not rows:
            return
        after = tuple(rows[-1][place] for place in at)
        yield _Page(rows, after)


def _names(database: Database, table: str) -> list[str]:
    names = [row[1] for row in database.execute(f"PRAGMA table_info({table})").fetchall()]
    if "rowid" in TABLES[table] and "rowid" not in names:
        names.append("rowid")
    return sorted(names)


def _write(target: PostgresDatabase, table: str, page: _Page) -> None:
    names = _names(target, table)
    marks = ", ".join("?" * len(names))
    conflict = "DO NOTHING"
    if table in _CHANGING:
        unique = _UNIQUE.get(table, ", ".join(TABLES[table]))
        fresh = [f'"{name}" = excluded."{name}"' for name in names if name not in unique.split(", ")]
        conflict = f"({unique}) DO UPDATE SET {', '.join(fresh)}"
        if table == "chains":
            conflict += " WHERE excluded.length > chains.length"
    statement = f"INSERT INTO {table} ({columns(names)}) VALUES ({marks}) ON CONFLICT {conflict}"  # noqa: S608
    target.execute("BEGIN")
    target.executemany(statement, page.rows)
    if table == "messages":
        _index(target, names, page)
    target.execute(
        "INSERT INTO undercliff_moving (source, name, place) SELECT source, ?, ? FROM undercliff_moving WHERE name = ''"
        " ON CONFLICT (name) DO UPDATE SET place = excluded.place",
        (table, _encode(page.last)),
    )
    target.execute("COMMIT")


def _index(target: Database, names: Sequence[str], page: _Page) -> None:
    seq, conversation, text = (names.index(name) for name in ("seq", "conversation", "text"))
    add(target, [(row[seq], row[conversation], unpack_text(row[text])) for row in page.rows])


def _number_on(target: PostgresDatabase, source: Database) -> None:
    """New rows get numbers behind those that came."""
    given = source.execute("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'chains'), 0)").fetchone()[0]
    target.execute("BEGIN")
    target.execute("UPDATE chain_numbers SET last = ?", (given,))
    for table, key in TABLES.items():
        if (len(key) == 1 and key[0] in ("seq", "rowid")) or table == "branch_numbers":
            last = f"SELECT coalesce(max({key[0]}), 0) + 1 FROM {table}"  # noqa: S608 - our own names
            target.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{key[0]}'), ({last}), false)")
    target.execute("SELECT setval('branch_touches', (SELECT coalesce(max(touched), 0) + 1 FROM branches), false)")
    target.execute("COMMIT")


def _told(database: Database, table: str, key: tuple[str, ...], digest: Any) -> int:
    """How many rows there are; the digest hears all of them."""
    count = 0
    cursor = stream(database, f"SELECT {columns(_names(database, table))} FROM {table} ORDER BY {columns(key)}", ())  # noqa: S608
    for row in cursor:
        if not count % PAGE_ROWS and isinstance(database, PostgresDatabase):
            database.allow(_PATIENCE_S)
        count += 1
        digest.update(repr(tuple(map(_alike, row))).encode("utf-8", "replace"))
    cursor.close()
    if isinstance(database, PostgresDatabase):
        database.rest()
    return count


def _alike(value: Any) -> Any:
    """A number of a REAL column that is whole is the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
