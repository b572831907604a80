"""CPU a request as the store grows from one conversation to a hundred thousand, and what a live conversation keeps.

Run it with `python -m tests.bench.growth [--sizes 1,1000,10000,100000]`. The store is filled with rows as
the proxy writes them, then served; the plain pass-through takes turns with it. How the cost grows with the length of a
conversation is in `tests.bench.hot_path`, with open streams in `tests.bench.streams`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from proxy.core.records import Batch, KeyRow
from proxy.store.rows import write_batch
from proxy.store.sqlite_connection import connect_writer
from tests.bench.export_size import turn
from tests.bench.gateways import rss_mb, tree, used_us
from tests.bench.hot_path import growing, memory_per_talk, openings, plain_process, provider, send
from tests.support.serve import served_process

RECEIPTS = 6  # keys that lead to a conversation of one exchange


@dataclass(frozen=True, slots=True)
class Figure:
    """CPU in microseconds a request, medians over the rounds; seconds until ready; memory and file in MB."""

    conversations: int
    small: float
    small_plain: float
    large: float
    large_plain: float
    ready_s: float
    rss_mb: float
    file_mb: float


def conversation(number: int, choose: random.Random) -> Batch:
    """Everything that the first exchange of a conversation writes, with the receipts that lead back to it."""
    batch = turn(0, f"c{number}", choose)
    branch = batch.branches[0].id
    keys = [sha256(f"{number} {place}".encode()).digest()[:16] for place in range(RECEIPTS)]
    return replace(batch, keys=tuple(KeyRow("t", "node", key, branch) for key in keys))


def fill(db: Path, start: int, end: int) -> None:
    """Conversations `start` to `end`, in transactions of a thousand."""
    connection = connect_writer(db, "NORMAL")
    connection.execute("PRAGMA synchronous = OFF")
    choose = random.Random(start)
    for first in range(start, end, 1000):
        connection.execute("BEGIN IMMEDIATE")
        for number in range(first, min(end, first + 1000)):
            write_batch(connection, conversation(number, choose))
        connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def measure(conversations: int, folder: Path, rounds: int, requests: int) -> Figure:
    used: dict[str, list[float]] = {}
    with provider() as url, plain_process(url) as plain:
        started = time.monotonic()
        with served_process(f"{url}/v1", folder) as served:
            ready = time.monotonic() - started
            assert served.process is not None
            targets = {"": (served.port, served.process.pid), "plain ": plain}
            loads = {"small": (openings, 4 * requests), "large": (growing, requests)}
            for load, (make, count) in loads.items():
                bodies = {name: make() for name in targets}
                for name, (port, _) in targets.items():
                    asyncio.run(send(port, bodies[name], 3))
                for _ in range(rounds):
                    for name, (port, pid) in targets.items():
                        before = used_us([pid])
                        asyncio.run(send(port, bodies[name], count))
                        used.setdefault(name + load, []).append((used_us([pid]) - before) / count)
            memory = rss_mb(tree(served.process.pid))
    middle = {name: statistics.median(values) for name, values in used.items()}
    return Figure(
        conversations, middle["small"], middle["plain small"], middle["large"], middle["plain large"],
        ready, memory, (folder / "undercliff.db").stat().st_size / 1e6,
    )  # fmt: skip


def run(sizes: Sequence[int], rounds: int, requests: int) -> None:
    print(f"{'conversations':>14}{'small µs':>10}{'plain':>8}{'440 KB µs':>11}{'plain':>8}{'ready s':>9}"
          f"{'RSS MB':>8}{'file MB':>9}")  # fmt: skip
    with TemporaryDirectory() as name:
        folder, filled = Path(name), 0
        with provider() as url, served_process(f"{url}/v1", folder):
            pass  # makes the tables
        for size in sizes:
            fill(folder / "undercliff.db", filled, size)
            filled = size
            f = measure(size, folder, rounds, requests)
            print(f"{f.conversations:>14,}{f.small:>10,.0f}{f.small_plain:>8,.0f}{f.large:>11,.0f}{f.large_plain:>8,.0f}"
                  f"{f.ready_s:>9.2f}{f.rss_mb:>8,.0f}{f.file_mb:>9,.0f}", flush=True)  # fmt: skip
    print(f"resident memory of one more live conversation of 440 KB: {memory_per_talk(40):,.0f} KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1,1000,10000,100000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=60)
    arguments = parser.parse_args()
    run([int(size) for size in arguments.sizes.split(",")], arguments.rounds, arguments.requests)


if __name__ == "__main__":
    main()
