"""The process that test_kill kills: submits batches without end and prints each id once its batch is on disk."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from proxy.store.sqlite import SqliteStore
from tests.proxy.store.rows import small_batch


async def write_for_ever(path: Path, start: int, writer: str) -> None:
    store = SqliteStore(path)
    await store.open()

    async def one(conversation: str) -> None:
        for number in itertools.count(start):
            batch = small_batch(number, conversation=conversation)
            await store.submit(batch)
            ids = [item.id for item in batch.items] + [f"exchange:{batch.exchanges[0].id}"]
            os.write(1, ("\n".join(ids) + "\n").encode())

    async with asyncio.TaskGroup() as tasks:
        for agent in range(8):
            tasks.create_task(one(f"{writer}{agent}-"))


if __name__ == "__main__":
    asyncio.run(write_for_ever(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
