"""The index follows behind the writes and is never behind what a search sees."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from proxy.core.records import Batch
from proxy.store import sqlite_index, sqlite_writer, writer
from proxy.store.rows import write_batch
from proxy.store.sqlite import SqliteStore
from proxy.store.sqlite_connection import connect_writer
from proxy.store.sqlite_index import index_some
from tests.proxy.store.rows import make_item, small_batch


def indexed_to(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT indexed_to FROM search_index").fetchone()[0])


def count(connection: sqlite3.Connection, word: str) -> int:
    return int(connection.execute("SELECT count(*) FROM items_fts WHERE items_fts MATCH ?", (word,)).fetchone()[0])


@pytest.mark.parametrize(("rows", "size"), [(512, 4 << 20), (7, 4 << 20), (512, 1)])
def test_steps_of_any_size_index_each_text_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, size: int
) -> None:
    monkeypatch.setattr(sqlite_index, "_STEP_ROWS", rows)
    monkeypatch.setattr(sqlite_index, "_STEP_BYTES", size)
    items = [make_item(f"{number}", text="needle" if number % 2 else "") for number in range(40)]
    with contextlib.closing(connect_writer(tmp_path / "ctx.db")) as connection:
        write_batch(connection, Batch(items=tuple(items)))
        while index_some(connection):
            pass
        assert count(connection, "needle") == 20
        assert not index_some(connection)
        write_batch(connection, Batch(items=(make_item("late", text="needle again"),)))
        assert index_some(connection)
        assert count(connection, "needle") == 21


async def test_a_search_finds_what_was_written_just_before(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ctx.db")
    await store.open()
    for number in range(5):
        await store.submit(Batch(items=(make_item(f"{number}", text=f"word{number}"),)))
        assert len(await store.search(f"word{number}")) == 1
    await store.aclose()


async def test_what_another_process_left_unindexed_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ctx.db"
    with contextlib.closing(connect_writer(path)) as killed:
        write_batch(killed, Batch(items=(make_item("1", text="orphan"),)))
    store = SqliteStore(path)
    await store.open()
    assert [stored.row.id for stored, _ in await store.search("orphan")] == ["1"]
    await store.aclose()


async def test_bulk_idle_and_close_each_bring_the_index_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ctx.db"
    monkeypatch.setattr(writer, "_IDLE_S", 1000.0)
    store = SqliteStore(path)
    await store.open()
    await store.submit(small_batch(1))
    assert indexed_to(path) == 0
    await store.aclose()
    assert indexed_to(path) == 5

    monkeypatch.setattr(writer, "_IDLE_S", 0.01)
    store = SqliteStore(path)
    await store.open()
    await store.submit(small_batch(2))
    async with asyncio.timeout(10):
        while indexed_to(path) < 10:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(writer, "_IDLE_S", 1000.0)
    monkeypatch.setattr(sqlite_writer, "_INDEX_BYTES", 10_000)
    await store.submit(small_batch(3))
    async with asyncio.timeout(10):
        while indexed_to(path) < 15:
            await asyncio.sleep(0.01)
    await store.aclose()


async def test_a_search_works_where_the_index_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "ctx.db"
    store = SqliteStore(path)
    await store.open()
    await store.submit(Batch(items=(make_item("1", text="early bird"),)))
    assert len(await store.search("early")) == 1
    store._writer._connection.execute("PRAGMA busy_timeout = 20")  # type: ignore[union-attr]
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert len(await store.search("early")) == 1
        assert not store.is_degraded
        other.execute("ROLLBACK")
    await store.aclose()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM gaps").fetchone() == (0,)
