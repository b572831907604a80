"""Migrations (STOR-07): each step whole or not at all, whoever is killed and however many start at once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from proxy.core.records import Batch
from proxy.store.migrations import MIGRATIONS, migrate, version_of
from proxy.store.sqlite import SqliteStore
from proxy.store.sqlite_connection import connect_writer
from tests.proxy.store.rows import make_items

_ROOT = Path(__file__).resolve().parents[3]

# Runs the migrations and kills itself inside step N: before its change, after it, or after the version mark.
_SUICIDE = """
import os, signal, sqlite3, sys
from proxy.store.migrations import MIGRATIONS, migrate

path, number, moment = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def dying(connection):
    if moment == "after":
        MIGRATIONS[number - 1](connection)
    if moment == "marked":
        MIGRATIONS[number - 1](connection)
        connection.execute(f"PRAGMA user_version = {number}")
    os.kill(os.getpid(), signal.SIGKILL)

steps = list(MIGRATIONS)
steps[number - 1] = dying
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
migrate(connection, steps)
"""


def schema(path: Path) -> list[tuple[str, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()


@pytest.mark.parametrize("moment", ["before", "after", "marked"])
@pytest.mark.parametrize("number", range(1, len(MIGRATIONS) + 1))
async def test_killed_inside_a_step_the_next_start_finishes(tmp_path: Path, number: int, moment: str) -> None:
    path, fresh = tmp_path / "killed.db", tmp_path / "fresh.db"
    child = subprocess.run([sys.executable, "-c", _SUICIDE, str(path), str(number), moment], cwd=_ROOT, check=False)
    assert child.returncode == -signal.SIGKILL
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert version_of(connection) == number - 1
    store = SqliteStore(path)
    await store.open()
    await store.submit(Batch(items=make_items("1")))
    await store.aclose()
    connect_writer(fresh).close()
    assert schema(path) == schema(fresh)


async def test_data_of_an_older_version_stays(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS[:1])
        connection.execute("INSERT INTO plans (id, branch, data) VALUES ('p', 'b', x'0061')")
    store = SqliteStore(path)
    await store.open()
    plan = await store.plan("p")
    assert plan is not None and plan.data == b"a"
    await store.aclose()


def _open_and_write(path: Path, barrier: threading.Barrier, number: int) -> None:
    import asyncio

    async def run() -> None:
        store = SqliteStore(path)
        barrier.wait()
        await store.open()
        await store.submit(Batch(items=make_items(f"{number}")))
        await store.aclose()

    asyncio.run(run())
    os._exit(0)


def test_processes_that_start_at_once_wait_for_each_other(tmp_path: Path) -> None:
    path, context = tmp_path / "new" / "ctx.db", multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    processes = [context.Process(target=_open_and_write, args=(path, barrier, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert version_of(connection) == len(MIGRATIONS)
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (3,)


def test_threads_that_open_a_new_file_at_once_all_get_it(tmp_path: Path) -> None:
    for attempt in range(10):
        path, barrier, errors = tmp_path / f"{attempt}.db", threading.Barrier(6), list[BaseException]()

        def start(path: Path = path, barrier: threading.Barrier = barrier, errors: list = errors) -> None:
            barrier.wait()
            try:
                connect_writer(path).close()
            except Exception as error:  # noqa: BLE001 - the test reports whatever it was
                errors.append(error)

        threads = [threading.Thread(target=start) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []


def test_a_step_that_fails_leaves_no_trace(tmp_path: Path) -> None:
    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (x)")
        connection.execute("SELECT * FROM nowhere")

    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, (MIGRATIONS[0], broken))
        assert version_of(connection) == 1
        assert not connection.in_transaction
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []


# -- append-only ---------------------------------------------------------------------------------
_DISPLAY = ("bodies", "messages", "exchanges", "outcomes", "paths", "windows", "plans", "summaries", "gaps")


@pytest.fixture
async def filled(tmp_path: Path) -> Path:
    """A file with one row in each display table."""
    from tests.proxy.store.rows import make_fold, make_outcome, small_batch

    path = tmp_path / "ctx.db"
    store = SqliteStore(path)
    await store.open()
    await store.submit(small_batch(1, items=1))
    await store.submit(Batch(outcomes=(make_outcome("ce1"),), folds=(make_fold("C1", ["ci1x0"]),)))
    await store.aclose()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO plans (id, branch, data) VALUES ('p', 'b', x'00')")
        connection.execute("INSERT INTO gaps (started_at, ended_at, batches, reason) VALUES ('a', 'b', 1, 'full')")
        values = "('k', 'c', 'C1', x'00', 'digest', x'00', 1, NULL, '')"
        connection.execute(
            "INSERT INTO summaries (key, conversation, item, body, summarizer, covers, tokens, cost, created_at)"
            f" VALUES {values}"
        )
        connection.commit()
    return path


@pytest.mark.parametrize("table", _DISPLAY)
def test_any_tool_is_refused_to_change_or_delete_what_was_kept(filled: Path, table: str) -> None:
    with contextlib.closing(sqlite3.connect(filled, isolation_level=None)) as connection:  # no pragma of ours
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "seq"]
        named = ", ".join(f'"{column}"' for column in columns)
        before = connection.execute(f"SELECT * FROM {table}").fetchall()
        assert before
        for column in ("seq", *columns):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(f'UPDATE {table} SET "{column}" = "{column}"')
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(f"DELETE FROM {table}")
        with pytest.raises(sqlite3.IntegrityError, match="the store assigns"):
            connection.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
        if table != "gaps":  # a gap has no key but its number
            last = columns[-1]
            changed = ", ".join(f'"{column}"' if column != last else "'forged'" for column in columns)
            connection.execute(f"INSERT OR REPLACE INTO {table} ({named}) SELECT {changed} FROM {table}")
            connection.execute(f"REPLACE INTO {table} ({named}) SELECT {changed} FROM {table}")
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == before
