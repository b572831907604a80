"""Group commit, and what happens to it when the database cannot be written."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store import sqlite_writer, writer
from proxy.store.sqlite_connection import connect_reader, connect_writer
from proxy.store.sqlite_writer import Writer
from tests.proxy.store.rows import make_body, make_items, make_outcome, small_batch


class Bench:
    """A writer whose connection the test can see, hold up and limit."""

    def __init__(self, path: Path, max_queue_bytes: int = 64 << 20) -> None:
        self.path = path
        self.statements: list[str] = []
        self.connections: list[sqlite3.Connection] = []
        self.go = threading.Event()
        self.go.set()
        self.refuses_to_connect = False
        self.writer = Writer(self._connect, path, max_queue_bytes)
        self.writer.start()

    def _connect(self) -> sqlite3.Connection:
        if self.refuses_to_connect:
            raise StoreError("cannot open", hint="test")
        connection = connect_writer(self.path)
        connection.set_trace_callback(self._trace)
        self.connections.append(connection)
        return connection

    def _trace(self, statement: str) -> None:
        if statement.startswith("BEGIN"):
            self.go.wait(20)
        self.statements.append(statement.split()[0])

    def limit_pages(self, extra: int | None) -> None:
        """Let the file grow by so many pages, or by any number."""
        connection = self.connections[-1]
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {1 << 30 if extra is None else used + extra}")

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with contextlib.closing(connect_reader(self.path)) as reader:
            return reader.execute(statement).fetchall()

    def ids(self) -> list[object]:
        return [row[0] for row in self.rows("SELECT id FROM messages ORDER BY seq")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "ctx.db")
    yield bench
    bench.go.set()
    bench.writer.stop()


def bad_batch(id: str) -> Batch:
    """SQLite holds no integer beyond 64 bits."""
    batch = small_batch(int(id))
    return replace(batch, exchanges=(replace(batch.exchanges[0], request_bytes=1 << 80),))


async def outcomes(futures: list[asyncio.Future[None]]) -> list[type[BaseException] | None]:
    done = await asyncio.gather(*futures, return_exceptions=True)
    return [type(error) if error else None for error in done]


# -- group commit --------------------------------------------------------------------------------
async def test_all_that_waits_is_one_transaction(bench: Bench) -> None:
    bench.go.clear()
    first = bench.writer.put(Batch(items=make_items("0")))
    while bench.writer._queue:  # until the writer has taken it
        await asyncio.sleep(0)
    rest = [bench.writer.put(Batch(items=make_items(f"{number}"))) for number in range(1, 50)]
    assert not first.done()
    bench.go.set()
    await asyncio.gather(first, *rest)
    assert bench.statements.count("COMMIT") == 2
    assert bench.ids() == [f"{number}" for number in range(50)]


async def test_what_may_wait_goes_with_the_next_batch(bench: Bench) -> None:
    held = bench.writer.put(Batch(items=make_items("0")), may_wait=True)
    await asyncio.gather(held, bench.writer.put(Batch(items=make_items("1"))))
    assert bench.statements.count("COMMIT") == 1
    assert bench.ids() == ["0", "1"]


async def test_what_may_wait_is_written_when_somebody_waits_or_soon(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.writer.put(Batch(items=make_items("0")), may_wait=True)  # nothing else comes
    assert bench.ids() == ["0"]
    monkeypatch.setattr(writer, "HOLD_S", 3600.0)
    held = bench.writer.put(Batch(items=make_items("1")), may_wait=True)
    bench.writer.hurry()
    await held
    assert bench.ids() == ["0", "1"]
    last = bench.writer.put(Batch(items=make_items("2")), may_wait=True)
    await asyncio.to_thread(bench.writer.stop)
    await last


async def test_the_future_is_done_after_the_commit_and_not_before(bench: Bench) -> None:
    seen: list[int] = []
    future = bench.writer.put(Batch(items=make_items("1")))
    future.add_done_callback(lambda _: seen.append(len(bench.ids())))
    await future
    await asyncio.sleep(0)
    assert seen == [1]


async def test_submitting_does_not_wait_for_the_disk(bench: Bench) -> None:
    bench.go.clear()
    futures = [bench.writer.put(small_batch(number)) for number in range(20)]  # would hang if it waited
    assert not any(future.done() for future in futures)
    bench.go.set()
    await asyncio.gather(*futures)


async def test_who_stops_waiting_loses_nothing(bench: Bench) -> None:
    bench.go.clear()
    gone, stays = bench.writer.put(Batch(items=make_items("1"))), bench.writer.put(Batch(items=make_items("2")))
    gone.cancel()
    bench.go.set()
    await stays
    assert bench.ids() == ["1", "2"]


# -- one bad batch -------------------------------------------------------------------------------
async def test_a_bad_batch_fails_alone(bench: Bench) -> None:
    bench.go.clear()
    futures = [bench.writer.put(Batch(items=make_items("a")))]
    futures += [bench.writer.put(bad_batch("7") if number == 2 else small_batch(number)) for number in range(5)]
    bench.go.set()
    assert await outcomes(futures) == [None, None, None, StoreError, None, None]
    assert bench.rows("SELECT count(*) FROM exchanges") == [(4,)]
    await bench.writer.put(Batch(items=make_items("z")))
    assert not bench.writer.is_degraded
    assert bench.rows("SELECT batches FROM gaps") == [(1,)]


async def test_a_failed_batch_leaves_no_part_of_itself(bench: Bench) -> None:
    with pytest.raises(StoreError):
        await bench.writer.put(bad_batch("7"))
    assert bench.writer.is_degraded
    counts = [bench.rows(f"SELECT count(*) FROM {table}") for table in ("bodies", "messages", "working", "branches")]
    assert counts == [[(0,)]] * 4


async def test_an_error_nobody_awaits_is_no_noise(bench: Bench) -> None:
    noise: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    bench.writer.put(bad_batch("7"))
    await bench.writer.put(Batch())
    assert noise == []


async def test_a_lone_surrogate_costs_itself_and_nothing_else(bench: Bench) -> None:
    batch = small_batch(7)
    odd = replace(
        batch,
        items=(*batch.items, replace(batch.items[0], id="odd", source="a\ud83d.py", text="words \ud83d")),
        outcomes=(replace(make_outcome("ce7"), error="\udc00", reply_items=("x\ud800",)),),
    )
    bench.go.clear()
    futures = [bench.writer.put(small_batch(1)), bench.writer.put(odd), bench.writer.put(small_batch(2))]
    bench.go.set()
    assert await outcomes(futures) == [None] * 3
    assert not bench.writer.is_degraded
    assert bench.rows("SELECT source FROM messages WHERE id = 'odd'") == [("a?.py",)]
    assert bench.rows("SELECT error FROM outcomes") == [("?",)]
    assert bench.rows("SELECT count(*) FROM exchanges") == [(3,)]


# -- disk full, locked, damaged ------------------------------------------------------------------
async def test_full_disk_degrades_then_recovers_and_the_gap_is_told(bench: Bench) -> None:
    await bench.writer.put(small_batch(0))
    bench.limit_pages(0)
    big = Batch(bodies=tuple(make_body(f"{number}" + "x" * 60 + chr(200 + number)) for number in range(2000)))
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(StoreError) as caught:
                await bench.writer.put(big)
            assert caught.value.is_full
            assert "no space left" in str(caught.value)
            assert bench.writer.is_degraded
        bench.limit_pages(None)
        await bench.writer.put(small_batch(1))
    assert not bench.writer.is_degraded
    ((started, ended, batches, reason),) = bench.rows("SELECT started_at, ended_at, batches, reason FROM gaps")
    assert batches == 3
    assert "no space left" in str(reason)
    assert str(started) < str(ended)
    assert bench.rows("SELECT count(*) FROM exchanges") == [(2,)]
    assert bench.rows("PRAGMA integrity_check") == [("ok",)]
    assert [entry["event"] for entry in logs] == ["store_failed", "store_recovered"]


async def test_it_recovers_without_traffic_too(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_IDLE_S", 0.01)
    with pytest.raises(StoreError):
        await bench.writer.put(bad_batch("7"))
    async with asyncio.timeout(10):
        while bench.writer.is_degraded:
            await asyncio.sleep(0.01)
    assert bench.rows("SELECT batches FROM gaps") == [(1,)]


async def test_a_lock_held_too_long_is_an_error_that_passes(bench: Bench) -> None:
    bench.connections[-1].execute("PRAGMA busy_timeout = 50")
    with contextlib.closing(sqlite3.connect(bench.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        futures = [bench.writer.put(small_batch(number)) for number in range(3)]
        assert await outcomes(futures) == [StoreError] * 3
        with pytest.raises(StoreError, match="locked by another process"):
            await bench.writer.put(small_batch(3))
        other.execute("ROLLBACK")
    await bench.writer.put(small_batch(4))
    assert not bench.writer.is_degraded
    assert bench.rows("SELECT sum(batches) FROM gaps") == [(4,)]


async def test_a_broken_connection_is_replaced(bench: Bench) -> None:
    bench.connections[-1].close()
    with pytest.raises(StoreError):
        await bench.writer.put(small_batch(0))
    bench.refuses_to_connect = True
    with pytest.raises(StoreError, match="cannot open"):
        await bench.writer.put(small_batch(1))
    bench.refuses_to_connect = False
    await bench.writer.put(small_batch(2))
    assert len(bench.connections) == 2
    assert bench.rows("SELECT id FROM exchanges") == [("ce2",)]


# -- bounds --------------------------------------------------------------------------------------
async def test_over_the_bound_a_batch_is_refused_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ctx.db", max_queue_bytes=100_000)
    body = Batch(bodies=(make_body("x" * 40_000),))
    bench.go.clear()
    taken = [bench.writer.put(body), bench.writer.put(body)]
    refused = bench.writer.put(body)
    assert refused.done() and "cannot keep up" in str(refused.exception())
    assert bench.writer.is_degraded
    bench.go.set()
    assert await outcomes(taken) == [None, None]
    await bench.writer.put(body)
    assert not bench.writer.is_degraded
    assert bench.rows("SELECT batches FROM gaps") == [(1,)]
    await bench.writer.put(Batch(bodies=(make_body("y" * 1_000_000),)))  # alone, any size is taken
    bench.writer.stop()


async def test_stopping_writes_what_is_queued(bench: Bench) -> None:
    futures = [bench.writer.put(small_batch(number)) for number in range(20)]
    await asyncio.to_thread(bench.writer.stop)
    assert await outcomes(futures) == [None] * 20
    with pytest.raises(StoreError, match="closed"):
        await bench.writer.put(small_batch(99))
    assert bench.rows("SELECT count(*) FROM exchanges") == [(20,)]


def test_a_loop_that_is_gone_does_not_stop_the_writer(bench: Bench) -> None:
    async def leave() -> None:
        bench.go.clear()
        bench.writer.put(small_batch(0))

    async def stay() -> None:
        await bench.writer.put(small_batch(1))

    asyncio.run(leave())
    bench.go.set()
    asyncio.run(stay())
    assert bench.rows("SELECT count(*) FROM exchanges") == [(2,)]


# -- the write-ahead log -------------------------------------------------------------------------
async def test_the_log_shrinks_when_a_slow_reader_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_IDLE_S", 0.01)
    monkeypatch.setattr(sqlite_writer, "_LARGE_WAL_BYTES", 1 << 20)
    wal = bench.path.with_name("ctx.db-wal")
    await bench.writer.put(small_batch(0))
    reader = connect_reader(bench.path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM messages").fetchone()
    with capture_logs() as logs:
        for number in range(1, 40):
            await bench.writer.put(small_batch(number, items=40))
        async with asyncio.timeout(10):
            while not any(entry["event"] == "store_log_large" for entry in logs):
                await asyncio.sleep(0.01)
    assert wal.stat().st_size > 1 << 20
    reader.close()
    async with asyncio.timeout(10):
        while wal.stat().st_size:
            await asyncio.sleep(0.01)
    assert bench.rows("SELECT count(*) FROM exchanges") == [(40,)]
