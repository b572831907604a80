"""Seals: what they cover, in which order rows are chained, what a repeated write does, what migration chains."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.core.filters import Filters
from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store.archive import Archive, Tombstone, filter_clause
from proxy.store.migrations import MIGRATIONS, migrate
from proxy.store.rows import write_batch, write_gap
from proxy.store.sealing import SEAL_COLUMNS, Sealer
from proxy.store.seals import (
    BY_NAME,
    MESSAGES,
    STRAY,
    TABLES,
    bytes_from_json,
    bytes_to_json,
    from_columns,
    from_json,
    plain,
    seal,
    to_columns,
    to_json,
)
from proxy.store.sqlite_connection import connect_writer
from proxy.store.tombstones import is_signed, signed
from tests.proxy.store.rows import make_exchange, make_item, make_items, make_outcome, small_batch

NOT_SEALED = {"seq", *SEAL_COLUMNS}
NO_DISPLAY_ROWS = {"tombstones"}  # signed instead


@contextlib.contextmanager
def writing(path: Path) -> contextlib.AbstractContextManager[sqlite3.Connection]:  # type: ignore[misc]
    connection = connect_writer(path)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.execute("COMMIT")
    connection.close()


def rows(path: Path, chain: str = "c") -> list[tuple[str, int]]:
    with Archive(path) as archive:
        number = next(line.number for line in archive.all_chains(Filters()) if line.id == chain)
        return [(row.table.name, row.place) for row in archive.all_rows(number)]


def test_every_column_of_every_display_table_is_sealed(tmp_path: Path) -> None:
    """A new table or column must decide: sealed, or named here."""
    connection = connect_writer(tmp_path / "x.db")
    guarded = connection.execute(
        "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%_no_update'"
    ).fetchall()
    assert {row[0] for row in guarded} == {t.name for t in TABLES} | {"bodies"} | NO_DISPLAY_ROWS
    for table in TABLES:
        names = {row[1] for row in connection.execute(f"PRAGMA table_info({table.name})")}
        assert names - NOT_SEALED == set(table.names), table.name
    connection.close()


def test_rows_are_chained_in_the_order_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with writing(path) as connection:
        write_batch(connection, small_batch(1, items=2))
        write_batch(connection, Batch(outcomes=(make_outcome("ce1"),)))
    order = ["exchanges", "messages", "messages", "windows", "outcomes"]
    assert rows(path) == [(name, place) for place, name in enumerate(order, start=1)]
    assert rows(path, STRAY) == [("paths", 1)]  # of a branch that nobody has told of


def test_a_row_that_is_known_moves_no_chain(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    for _ in range(3):
        with writing(path) as connection:
            write_batch(connection, small_batch(1, items=2))
            write_batch(connection, small_batch(1, items=2))
    assert len(rows(path)) == 4


def test_what_belongs_nowhere_has_a_chain_too(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with writing(path) as connection:
        write_batch(connection, Batch(exchanges=(make_exchange("e", conversation="", tenant="t9"),)))
        write_batch(connection, Batch(outcomes=(make_outcome("e"), make_outcome("unknown"))))
        write_gap(connection, "a", "b", 3, "disk full")
    assert rows(path, "~t9") == [("exchanges", 1), ("outcomes", 2)]
    assert rows(path, STRAY) == [("outcomes", 1), ("gaps", 2)]


def test_values_come_back_from_columns_and_from_json() -> None:
    item = replace(make_item("1", text="a \ud800 lone surrogate"), is_pinned=True, importance=1)
    values = plain(MESSAGES, [getattr(item, name) for name in MESSAGES.names])
    assert from_columns(MESSAGES, to_columns(MESSAGES, values)) == values
    assert from_json(MESSAGES, to_json(MESSAGES, values)) == values
    assert seal(b"", "messages", 1, values) != seal(b"", "messages", 2, values) != seal(b"x", "messages", 1, values)
    for data in (b"text \xc3\xa4", b"\xff\x00", b""):
        assert bytes_from_json(bytes_to_json(data)) == data
    with pytest.raises(ValueError, match="neither"):
        bytes_from_json({"hex": "00"})
    assert BY_NAME["messages"] is MESSAGES


def test_migration_chains_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:3])
        names = 'id, conversation, branch, kind, role, body, call_id, source, "group", is_pinned, importance, exchange'
        for number in range(1200):
            connection.execute(
                f"INSERT INTO messages ({names}, created_at, atoms, text)"
                " VALUES (?, ?, 'b', 'message', 'user', x'00', '', '', '', 0, 0.0, '', '', x'00', x'00')",
                (f"i{number}", f"c{number % 7}"),
            )
        connection.execute("INSERT INTO plans (id, branch, data) VALUES ('p', 'nowhere', x'0061')")
    with writing(path) as connection:
        write_batch(connection, Batch(items=make_items("new", conversation="c3")))
    assert len(rows(path, "c3")) == 1200 // 7 + 1
    assert rows(path, STRAY) == [("plans", 1)]
    from proxy.audit.verify import verify_store

    with Archive(path) as archive:
        found = verify_store(archive, secret=None).problems
    assert {problem.kind for problem in found} == {"missing"}  # these rows never had bodies; the chains hold


def test_chains_only_grow(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with writing(path) as connection:
        sealer = Sealer(connection)
        list(sealer.seals("c", "messages", [[1], [2]]))
        sealer.finish()
        for statement in (
            "UPDATE chains SET length = 1",
            "UPDATE chains SET id = 'd', length = 9",
            "DELETE FROM chains",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="only grow"):
                connection.execute(statement)


def test_an_archive_needs_a_store_of_this_schema(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"), Archive(tmp_path / "none.db"):
        pass
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:2])
    with pytest.raises(StoreError, match="schema 2"), Archive(path):
        pass


def test_filters_in_sql() -> None:
    assert filter_clause(Filters()) == ("", [])
    clause, values = filter_clause(Filters(conversations=("a", "b"), model="gpt-[5]*"))
    assert "IN (?, ?)" in clause and values == ["a", "b", "gpt-[[]5]*"]


def test_tombstones_are_signed() -> None:
    stone = signed(Tombstone(1, "c", "t", 3, b"h", "asked", "2026"), b"secret")
    assert is_signed(stone, b"secret")
    assert not is_signed(stone, b"other") and not is_signed(replace(stone, length=2), b"secret")
