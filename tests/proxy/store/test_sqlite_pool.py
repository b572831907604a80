"""Read connections: reused, bounded, and dropped after a failure."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from proxy.errors import StoreError
from proxy.store.sqlite_connection import connect_writer
from proxy.store.sqlite_pool import FilePool


@pytest.fixture
def path(tmp_path: Path) -> Path:
    connect_writer(tmp_path / "ctx.db").close()
    return tmp_path / "ctx.db"


async def test_a_connection_is_used_again(path: Path) -> None:
    pool = FilePool(path, size=4)
    used = {id(await pool.run(lambda connection: connection)) for _ in range(5)}
    assert len(used) == 1
    pool.close()


async def test_no_more_connections_than_threads(path: Path) -> None:
    pool, used, together = FilePool(path, size=2), set[int](), threading.Barrier(2)

    def read(connection: sqlite3.Connection) -> None:
        together.wait(10)
        used.add(id(connection))

    await asyncio.gather(*(pool.run(read) for _ in range(8)))
    assert len(used) == 2
    pool.close()


async def test_a_failed_read_costs_its_connection(path: Path) -> None:
    pool, seen = FilePool(path, size=1), list[sqlite3.Connection]()

    def broken(connection: sqlite3.Connection) -> None:
        seen.append(connection)
        connection.execute("SELECT * FROM nowhere")

    with pytest.raises(StoreError, match="cannot read"):
        await pool.run(broken)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        seen[0].execute("SELECT 1")
    assert await pool.run(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)
    pool.close()


async def test_a_file_that_is_gone_is_a_store_error(tmp_path: Path) -> None:
    pool = FilePool(tmp_path / "gone.db", size=1)
    with pytest.raises(StoreError, match=r"gone\.db"):
        await pool.run(lambda connection: connection.execute("SELECT 1").fetchone())
    pool.close()


async def test_closing_closes_what_is_idle_and_refuses_the_rest(path: Path) -> None:
    pool = FilePool(path, size=1)
    connection = await pool.run(lambda connection: connection)
    pool.close()
    pool.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    with pytest.raises(StoreError, match="closed"):
        await pool.run(lambda connection: None)
