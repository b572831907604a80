"""STOR-02: an export that stays open for long holds nothing up, and the write-ahead log is back under its cap."""

from __future__ import annotations

import asyncio
from pathlib import Path

from proxy.audit.jsonl import write
from proxy.audit.verify import verify_export
from proxy.core.filters import Filters
from proxy.store.archive import Archive
from proxy.store.sqlite import SqliteStore
from tests.proxy.store.rows import small_batch

BATCHES = 1500
IDLE_S = 20.0


async def test_stor_02_a_slow_export_starves_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "ctx.db"
    store = SqliteStore(path, synchronous="NORMAL")
    await store.open()
    for number in range(40):
        await store.submit(small_batch(number, conversation="old"))
    log = path.with_name("ctx.db-wal")
    with Archive(path) as archive:
        lines = write(archive, Filters(), exported_at="x", version="1")
        taken = [next(lines) for _ in range(50)]  # open, in the middle of a conversation, and slow
        for start in range(0, BATCHES, 50):
            numbers = range(start, start + 50)
            await asyncio.gather(*(store.submit(small_batch(n, conversation=f"new{n % 9}", items=20)) for n in numbers))
        assert log.stat().st_size > 1 << 20
        async with asyncio.timeout(IDLE_S):
            while log.stat().st_size:  # the writer gives the space back when it is idle: the export is still open
                await asyncio.sleep(0.05)
        rest = await asyncio.to_thread(list, lines)
    await store.aclose()
    # The bodies that these rows speak of were never given; everything else holds.
    problems = [p for p in verify_export([*taken, *rest]).problems if "the body" not in p.what]
    assert not problems
    assert sum(b'"type":"chain"' in line for line in rest) >= 9  # what came meanwhile is there as well
