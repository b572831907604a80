"""Reads a store row by row for an audit: chains, sealed rows, bodies. Each call is one short read."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from proxy.core.filters import Filters
from proxy.errors import StoreError
from proxy.store.codec import unpack
from proxy.store.database import Cursor, Database, stream
from proxy.store.rows import any_of, chunks, columns
from proxy.store.seals import TABLES, SealedTable, from_columns
from proxy.store.source import Place, source_of

T = TypeVar("T")

PAGE_ROWS = 256
_PAGE_BYTES = 4 << 20
_BODY_BYTES = 8 << 20

_ROWS_SQL = {
    table.name: (
        f"SELECT place, seq, seal, {columns(table.names)} FROM {table.name}"  # noqa: S608 - our own names
        " WHERE chain = ? AND place > ? ORDER BY place LIMIT ?"
    )
    for table in TABLES
}
_CHAINS_SQL = (
    "SELECT c.number, c.id, coalesce(v.tenant, CASE WHEN c.id LIKE '~%' THEN substr(c.id, 2) ELSE '' END), c.length,"
    " c.head, coalesce(v.model, ''), coalesce(v.created_at, ''), coalesce(v.updated_at, ''),"
    " c.signature"
    " FROM chains c LEFT JOIN conversations v ON v.id = c.id WHERE c.number > ?"
)
# What the working store knows of a conversation, so that an import shows the same views.
STATE_TABLES = ("branches", "folds", "working", "links", "marks")
_STATE_ORDER = {
    "branches": ("rowid",),
    "folds": ("seq",),
    "working": ("seq",),
    "links": ("a", "type", "b"),
    "marks": ("item", "name"),
}
_STATE_START = {"branches": (0,), "folds": (0,), "working": (0,), "links": ("", "", ""), "marks": ("", "")}
_STATE_LEFT_OUT = {"seq", "touched", "rowid"}


@dataclass(frozen=True, slots=True)
class ChainLine:
    """A conversation's chain, or the one of a tenant's requests that belong to none (its id starts with ~)."""

    number: int
    id: str
    tenant: str
    length: int
    head: bytes
    model: str = ""
    created_at: str = ""
    updated_at: str = ""
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class SealedRow:
    """One display row. `values` are plain ones in the table's order; None when they cannot be read any more."""

    table: SealedTable
    place: int
    seq: int
    seal: bytes
    values: list[Any] | None

    def value(self, name: str) -> Any:
        assert self.values is not None
        return self.values[self.table.names.index(name)]

    @property
    def name(self) -> str:
        """What to call it in a message."""
        key = self.value(self.table.key) if self.values is not None else f"number {self.seq}"
        return f"{self.table.name} row {key}"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What stands in place of a conversation that was erased on order."""

    number: int
    conversation: str
    tenant: str
    length: int
    head: bytes
    reason: str
    erased_at: str
    signature: bytes = b""


class Archive:
    """A store, opened for reading. Use it in one thread at a time, as a context manager."""

    def __init__(self, place: Place) -> None:
        self._source = source_of(place)
        self._connection: Database | None = None

    def __enter__(self) -> Self:
        self._connection = self._source.connect()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def secret(self) -> bytes:
        """The key that is kept beside the store; empty without one."""
        return self._source.secret

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def read(self, read: Callable[[Database], T]) -> T:
        """What `read` finds; it must fetch all that it returns."""
        if self._connection is None:
            raise StoreError(f"the store {self._source.name} is not open")
        return self._source.read(self._connection, read)

    # -- chains --------------------------------------------------------------------------------
    def chains(self, filters: Filters, after: int = 0, limit: int = PAGE_ROWS) -> list[ChainLine]:
        """The next chains behind a number, in the order they began."""
        clause, values = filter_clause(filters)
        statement = f"{_CHAINS_SQL}{clause} ORDER BY c.number LIMIT ?"
        rows = self.read(lambda db: db.execute(statement, (after, *values, limit)).fetchall())
        return [ChainLine(*row) for row in rows]

    def all_chains(self, filters: Filters, after: int = 0) -> Iterator[ChainLine]:
        while page := self.chains(filters, after):
            yield from page
            after = page[-1].number

    def last_number(self) -> int:
        """The number that the newest chain got, there or erased."""
        statement = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'chains'), 0)"
        return int(self.read(lambda db: db.execute(statement).fetchone()[0]))

    def size(self, filters: Filters) -> tuple[int, int]:
        """(chains, rows) that fit, for a progress bar."""
        clause, values = filter_clause(filters)
        statement = (
            f"SELECT count(*), CAST(coalesce(sum(c.length), 0) AS BIGINT) FROM chains c WHERE c.number > 0{clause}"  # noqa: S608
        )
        found = self.read(lambda db: db.execute(statement, values).fetchone())
        return int(found[0]), int(found[1])

    # -- rows ----------------------------------------------------------------------------------
    def rows(
        self, chain: int, after: int, upto: int | None = None, tables: Sequence[SealedTable] = TABLES
    ) -> list[SealedRow]:
        """The next rows of a chain behind a place, of these tables in one order; few enough for memory and time."""
        return self.read(lambda db: _rows_page(db, chain, after, upto, tables))

    def all_rows(
        self, chain: int, after: int = 0, upto: int | None = None, tables: Sequence[SealedTable] = TABLES
    ) -> Iterator[SealedRow]:
        while page := self.rows(chain, after, upto, tables):
            yield from page
            after = page[-1].place

    def strays(self, table: SealedTable, limit: int = 20) -> list[SealedRow]:
        """Rows that stand in no known chain."""
        statement = (
            f"SELECT place, seq, seal, {columns(table.names)} FROM {table.name}"  # noqa: S608 - our own names
            " WHERE chain NOT IN (SELECT number FROM chains) ORDER BY seq LIMIT ?"
        )
        return self.read(lambda db: [_row(table, row) for row in db.execute(statement, (limit,))])

    # -- bodies --------------------------------------------------------------------------------
    def bodies(self, hashes: Sequence[bytes]) -> Iterator[tuple[bytes, bytes | None, bytes]]:
        """(hash, bytes, mark of redaction) one after the other; None for bytes that cannot be read any more."""
        for hash in hashes:
            row = self.read(partial(_body, hash=hash))
            if row is not None:
                yield hash, _unpacked(row[0]), row[1]

    def body(self, hash: bytes) -> bytes | None:
        return next((data for _, data, _ in self.bodies([hash])), None)

    def known_bodies(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Those of the hashes that there is a body for."""
        known: set[bytes] = set()
        for some in chunks(list(dict.fromkeys(hashes))):
            statement = any_of("SELECT hash FROM bodies WHERE hash IN (?*)", len(some))
            known.update(self.read(partial(_known, statement=statement, hashes=some)))
        return known

    def all_bodies(self, after: int = 0) -> Iterator[tuple[int, bytes, int, bytes | None, bytes]]:
        """(number, hash, size, bytes, mark of redaction) of every body."""
        while page := self.read(partial(_bodies_page, after=after)):
            yield from page
            after = page[-1][0]

    # -- the rest ------------------------------------------------------------------------------
    def state(self, table: str, conversation: str) -> Iterator[dict[str, Any]]:
        """Rows of a working table by column name, a page at a time."""
        after: tuple[Any, ...] = _STATE_START[table]
        upto = self.read(lambda db: _last_state(db, table, conversation))
        while page := self.read(partial(_state_page, table=table, conversation=conversation, after=after, upto=upto)):
            yield from (row for _, row in page)
            after = page[-1][0]

    def tombstones(self) -> list[Tombstone]:
        names = "number, conversation, tenant, length, head, reason, erased_at, signature"
        statement = f"SELECT {names} FROM tombstones ORDER BY seq"  # noqa: S608 - our own names
        return [Tombstone(*row) for row in self.read(lambda db: db.execute(statement).fetchall())]

    def faults(self) -> list[str]:
        """What the database itself finds wrong with its file."""
        return self._source.faults(self._connection) if self._connection is not None else []


def filter_clause(filters: Filters) -> tuple[str, list[Any]]:
    """The conditions on a chain `c` in SQL, and their values: the one meaning of every list and export."""
    clause, values = "", list[Any]()
    if filters.conversations:
        clause += f" AND c.id IN ({', '.join('?' * len(filters.conversations))})"
        values += filters.conversations
    if filters.asks_exchanges:
        wanted = {
            "e.tenant = ?": filters.tenant,
            "e.model GLOB ?": filters.model.replace("[", "[[]"),
            "e.created_at >= ?": filters.since,
            "e.created_at < ?": filters.until,
            "o.outcome = ?": filters.outcome,
        }
        chosen = {condition: value for condition, value in wanted.items() if value}
        clause += (
            " AND EXISTS (SELECT 1 FROM exchanges e LEFT JOIN outcomes o ON o.exchange = e.id"  # noqa: S608
            f" WHERE e.chain = c.number AND {' AND '.join(chosen)})"
        )
        values += chosen.values()
    return clause, values


def _rows_page(
    connection: Database, chain: int, after: int, upto: int | None, tables: Sequence[SealedTable]
) -> list[SealedRow]:
    cursors = [(table, stream(connection, _ROWS_SQL[table.name], (chain, after, PAGE_ROWS))) for table in tables]
    page: list[SealedRow] = []
    size = 0
    merged = heapq.merge(*(_tagged(table, cursor) for table, cursor in cursors), key=lambda entry: entry[1][0])
    for table, row in merged:
        if len(page) >= PAGE_ROWS or size >= _PAGE_BYTES or (upto is not None and row[0] > upto):
            break
        page.append(_row(table, row))
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
    for _, cursor in cursors:
        cursor.close()
    return page


def _tagged(table: SealedTable, cursor: Cursor) -> Iterator[tuple[SealedTable, tuple[Any, ...]]]:
    for row in cursor:
        yield table, row


def _row(table: SealedTable, row: Sequence[Any]) -> SealedRow:
    place, seq, mark, *stored = row
    values: list[Any] | None
    try:
        values = from_columns(table, stored)
    except (ValueError, TypeError, AttributeError):  # damaged beyond reading: the seal cannot hold either
        values = None
    return SealedRow(table, place, seq, bytes(mark) if isinstance(mark, bytes) else b"", values)


def _unpacked(data: Any) -> bytes | None:
    try:
        return unpack(data)
    except (ValueError, TypeError):
        return None


def _body(connection: Database, *, hash: bytes) -> tuple[Any, ...] | None:
    row: tuple[Any, ...] | None = connection.execute(
        "SELECT data, redacted FROM bodies WHERE hash = ?", (hash,)
    ).fetchone()
    return row


def _known(connection: Database, *, statement: str, hashes: Sequence[bytes]) -> list[bytes]:
    return [row[0] for row in connection.execute(statement, hashes)]


def _bodies_page(connection: Database, *, after: int) -> list[tuple[int, bytes, int, bytes | None, bytes]]:
    page: list[tuple[int, bytes, int, bytes | None, bytes]] = []
    size = 0
    statement = "SELECT seq, hash, size, data, redacted FROM bodies WHERE seq > ? ORDER BY seq"
    cursor = stream(connection, statement, (after,))
    for seq, hash, length, data, mark in cursor:
        plain = _unpacked(data)
        page.append((seq, hash, length, plain, mark))
        size += len(plain or b"")
        if len(page) >= PAGE_ROWS or size >= _BODY_BYTES:
            break
    cursor.close()
    return page


def _last_state(connection: Database, table: str, conversation: str) -> tuple[int, int] | None:
    """Where a conversation's working rows begin and end: they have no index by conversation, but one by branch."""
    if table != "working":
        return None
    statement = (
        "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM working"
        " WHERE branch IN (SELECT id FROM branches WHERE conversation = ?)"
    )
    first, last = connection.execute(statement, (conversation,)).fetchone()
    return first, last


def _state_page(
    connection: Database,
    *,
    table: str,
    conversation: str,
    after: tuple[Any, ...],
    upto: tuple[int, int] | None,
) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    assert table in STATE_TABLES
    order = ", ".join(f"t.{name}" for name in _STATE_ORDER[table])
    names = [name for name in state_columns(connection, table) if name not in _STATE_LEFT_OUT]
    shown = columns(names, "t.")
    if table == "working":  # a fold is named by its id, as numbers are the file's own
        shown = shown.replace('t."fold"', "(SELECT f.id FROM folds f WHERE f.seq = t.fold) AS fold")
    marks = ", ".join("?" * len(after))
    bounds = "" if upto is None else f" AND t.seq BETWEEN {upto[0]} AND {upto[1]}"
    statement = (
        f"SELECT {order}, {shown} FROM {table} t WHERE t.conversation = ? AND ({order}) > ({marks}){bounds}"  # noqa: S608
        f" ORDER BY {order} LIMIT {PAGE_ROWS}"
    )
    cursor = connection.execute(statement, (conversation, *after))
    return [(row[: len(after)], dict(zip(names, row[len(after) :], strict=True))) for row in cursor.fetchall()]


def state_columns(connection: Database, table: str) -> dict[str, str]:
    """Names and declared types."""
    return {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}
