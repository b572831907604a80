"""The store as a whole: many writers, a second process, a small disk; never on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.core.records import Batch, BodyRow
from proxy.errors import StoreError
from proxy.store import reader
from proxy.store.sqlite import SqliteStore
from tests.proxy.store.rows import hashed, make_item, make_items, small_batch

_ROOT = Path(__file__).resolve().parents[3]
_SECOND = """
import asyncio, sys
from pathlib import Path
from proxy.store.sqlite import SqliteStore
from tests.proxy.store.rows import small_batch

async def run():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    print("open", flush=True)
    for number in range(150):
        await store.submit(small_batch(number, conversation="second"))
    await store.aclose()

asyncio.run(run())
"""


async def test_fifty_writers_an_export_and_a_second_process_lose_no_row(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ctx.db")
    await store.open()
    await store.submit(small_batch(999, conversation="w0"))
    child = subprocess.Popen(
        [sys.executable, "-c", _SECOND, str(tmp_path / "ctx.db")], cwd=_ROOT, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    with child.stdout:
        assert await asyncio.to_thread(child.stdout.readline) == b"open\n"
    is_done, exported = asyncio.Event(), list[int]()

    async def write(writer: int) -> None:
        for number in range(20):
            await store.submit(small_batch(number, conversation=f"w{writer}"))

    async def export() -> None:
        while not is_done.is_set():
            rows = [stored.row.id async for stored in await store.transcript("w0")]
            assert len(set(rows)) == len(rows)
            exported.append(len(rows))

    exporter = asyncio.create_task(export())
    async with asyncio.TaskGroup() as tasks:
        for writer in range(50):
            tasks.create_task(write(writer))
    is_done.set()
    await exporter
    assert await asyncio.to_thread(child.wait, 60) == 0

    assert not store.is_degraded
    lines = {line.id: (line.exchanges, line.items) for line in await store.conversations()}
    assert lines == {f"w{n}": (20, 100) for n in range(1, 50)} | {"w0": (21, 105), "second": (150, 750)}
    assert exported == sorted(exported)
    await store.aclose()
    with contextlib.closing(sqlite3.connect(tmp_path / "ctx.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM gaps").fetchone() == (0,)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to mount a small disk")
async def test_a_disk_that_fills_up_and_is_cleared(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        store = SqliteStore(tmp_path / "store" / "ctx.db")
        await store.open()
        ballast = tmp_path / "ballast"
        await store.submit(Batch(items=make_items("1 2")))
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        failures = 0
        for number in range(20):
            noise = os.urandom(100_000)
            try:
                await store.submit(Batch(bodies=(BodyRow(hashed(noise), noise),), items=make_items(f"n{number}")))
            except StoreError as error:
                assert error.is_full
                failures += 1
        assert failures == 20
        assert store.is_degraded
        assert [stored.row.id for stored in await store.view("b")] == ["1", "2"]  # reading goes on
        ballast.unlink()
        await store.submit(Batch(items=make_items("3")))
        assert not store.is_degraded
        assert [stored.row.id for stored in await store.view("b")] == ["1", "2", "3"]
        await store.aclose()
        with contextlib.closing(sqlite3.connect(tmp_path / "store" / "ctx.db")) as connection:
            assert connection.execute("SELECT batches FROM gaps").fetchall() == [(20,)]
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


async def test_reads_run_in_other_threads_and_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "ctx.db", readers=3)
    await store.open()
    together, threads = threading.Barrier(3), set[int]()

    def slow(connection: sqlite3.Connection, branch_id: str) -> None:
        together.wait(10)  # passes only when three reads are under way at once
        threads.add(threading.get_ident())

    monkeypatch.setattr(reader, "branch", slow)
    await asyncio.gather(*(store.branch("b") for _ in range(6)))
    assert len(threads) == 3
    assert threading.get_ident() not in threads
    await store.aclose()


async def test_a_failed_read_is_a_store_error_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "ctx.db")
    await store.open()

    def broken(connection: sqlite3.Connection, conversation: str) -> None:
        connection.execute("SELECT * FROM nowhere")

    monkeypatch.setattr(reader, "branches", broken)
    with pytest.raises(StoreError, match=r"cannot read .*nowhere"):
        await store.branches("c")
    assert await store.branch("b") is None
    await store.aclose()


async def test_a_transcript_is_read_in_pages_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "ctx.db")
    await store.open()
    await store.submit(Batch(items=tuple(make_item(f"{number}") for number in range(600))))
    large = [replace(make_item(f"large{number}"), body=hashed(bytes([number]))) for number in range(5)]
    await store.submit(Batch(items=tuple(large), bodies=tuple(BodyRow(i.body, bytes(3 << 20)) for i in large)))
    pages: list[int] = []
    real = reader.transcript_page

    def counted(*values: object) -> list[object]:
        page = real(*values)  # type: ignore[arg-type]
        pages.append(len(page))
        return page  # type: ignore[return-value]

    monkeypatch.setattr(reader, "transcript_page", counted)
    rows = [stored.row.id async for stored in await store.transcript("c")]
    assert len(set(rows)) == 605
    assert max(pages) <= 256
    assert pages[-3:] == [2, 1, 0]
    await store.aclose()


async def test_opening_twice_and_closing_unopened_are_harmless(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ctx.db")
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        await store.submit(Batch())
    await store.open()
    await store.open()
    await store.submit(Batch(items=make_items("1")))
    await store.aclose()
