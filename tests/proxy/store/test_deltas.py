"""Long paths and windows resolve quickly and in little memory."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

from proxy.core.records import Batch
from proxy.store.deltas import path as resolve_path
from proxy.store.sqlite import SqliteStore
from proxy.store.sqlite_connection import connect_reader
from tests.proxy.store.rows import make_path, make_window


async def test_ten_thousand_items_behind_sixty_four_deltas_are_quick(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ctx.db")
    await store.open()
    ids = [f"{number:012}" for number in range(10_000)]
    paths, windows = [make_path("p0", ids[:9_000])], [make_window("w0", "e0", ids[:9_000])]
    for step in range(1, 64):
        keep = 9_000 + (step - 1) * 16
        tail = ids[keep : keep + 16] if step < 63 else ids[keep:]
        paths.append(make_path(f"p{step}", tail, base=f"p{step - 1}", keep=keep))
        windows.append(make_window(f"w{step}", f"e{step}", tail, base=f"w{step - 1}", keep=keep))
    await store.submit(Batch(paths=tuple(paths), windows=tuple(windows)))

    started = time.perf_counter()
    assert list(await store.path("p63")) == ids
    path_s, started = time.perf_counter() - started, time.perf_counter()
    manifest = await store.window("w63")
    window_s = time.perf_counter() - started
    assert manifest is not None and [entry.item for entry in manifest.entries] == ids
    await store.aclose()
    assert path_s < 0.25
    assert window_s < 0.5


async def test_memory_holds_the_result_and_not_the_chain(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ctx.db")
    await store.open()
    full = [f"{number:012}" for number in range(2_000)]
    steps = [make_path("p0", full)]
    steps += [make_path(f"p{n}", [f"{n}-{item}" for item in full], base=f"p{n - 1}", keep=5) for n in range(1, 200)]
    await store.submit(Batch(paths=tuple(steps)))
    await store.aclose()
    del steps
    connection = connect_reader(tmp_path / "ctx.db")
    tracemalloc.start()
    resolved = resolve_path(connection, "p199")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    connection.close()
    assert len(resolved) == 2_005
    assert peak < 3 << 20  # the whole chain would be 200 times 2,000 ids: over 25 MB
