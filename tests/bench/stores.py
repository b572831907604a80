"""The proxy on a SQLite file and on PostgreSQL, in turns in one run: requests a second and CPU a request.

Run it with `python -m tests.bench.stores [--rounds N] [--requests N] [--json]`. Both databases flush every commit
to disk. CPU is of the proxy process, and beside it of all of PostgreSQL's. The store alone is driven as well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from proxy.store.base import Store
from proxy.store.open import open_store
from tests.bench.hot_path import cpu_us, growing_from
from tests.proxy.store.rows import small_batch
from tests.support import replies
from tests.support.postgres import PostgresServer, own_server
from tests.support.serve import ServedProcess, served_process
from tests.support.upstream import Action, Request, ScriptedUpstream

KINDS = ("sqlite", "postgres")
SIZES = {"small list": 6, "201 messages": 201}


@dataclass(frozen=True, slots=True)
class Figure:
    """Medians over the rounds."""

    store: str
    case: str
    per_second: float
    cpu_us: float
    database_cpu_us: float


def answer(request: Request) -> Action:
    return replies.json_reply(replies.completion("ok then", prompt=len(request.body) // 4))


def database_cpu_us(server: PostgresServer) -> float:
    """Of the server and all that it started and that is still there."""
    assert server.process is not None
    total = 0.0
    for pid in [server.process.pid, *server.backends()]:
        try:
            total += cpu_us(pid)
        except FileNotFoundError:  # it has just ended
            continue
    return total


@contextmanager
def proxies(server: PostgresServer, folder: Path) -> Iterator[dict[str, ServedProcess]]:
    server.execute("CREATE DATABASE bench")
    (folder / "s").mkdir()
    (folder / "p").mkdir()
    keys = {"store__secret_file": str(folder / "x.secret"), "store__spool": str(folder / "spool")}
    with (
        ScriptedUpstream(answer) as up,
        served_process(up.base_url, folder / "s") as one,
        served_process(up.base_url, folder / "p", store__url=server.url("bench"), **keys) as other,
    ):
        yield {"sqlite": one, "postgres": other}


def requests_of(proxy: ServedProcess, size: int, count: int, clients: int, seed: int) -> float:
    """Clients at once, each with a list of its own that grows; seconds for all of them."""

    def work(number: int) -> None:
        lists = growing_from(size)
        mark = f"careful assistant {seed} {number}".encode()
        with httpx.Client(trust_env=False, timeout=60) as http:
            for _ in range(count):
                body = next(lists).replace(b"careful assistant", mark, 1)
                reply = http.post(f"{proxy.base_url}/chat/completions", content=body,
                                  headers={"authorization": "Bearer sk-one"})  # fmt: skip
                assert reply.status_code == 200, reply.text

    started = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, range(clients)))
    return time.monotonic() - started


def through_the_proxy(server: PostgresServer, folder: Path, rounds: int, requests: int, clients: int) -> list[Figure]:
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    with proxies(server, folder) as made:
        for turn in range(rounds):
            for case, size in SIZES.items():
                for kind in KINDS if turn % 2 else KINDS[::-1]:
                    proxy = made[kind]
                    assert proxy.process is not None
                    before, theirs = cpu_us(proxy.process.pid), database_cpu_us(server)
                    seconds = requests_of(proxy, size, requests, clients, turn)
                    total = requests * clients
                    cpu = (cpu_us(proxy.process.pid) - before) / total
                    database = (database_cpu_us(server) - theirs) / total if kind == "postgres" else 0.0
                    found.setdefault((kind, case), []).append((total / seconds, cpu, database))
    return [
        Figure(kind, case, *(round(statistics.median(column), 1) for column in zip(*values, strict=True)))
        for (kind, case), values in sorted(found.items())
    ]


async def store_alone(store: Store, batches: int, waiting: int) -> float:
    """Batches a second, so many of them waiting at once."""
    await store.open()
    started = time.monotonic()
    for start in range(0, batches, waiting):
        some = range(start, min(start + waiting, batches))
        await asyncio.gather(*(store.submit(small_batch(n, conversation=f"c{n % 20}")) for n in some))
    seconds = time.monotonic() - started
    await store.aclose()
    return batches / seconds


def stores_alone(server: PostgresServer, folder: Path, batches: int) -> list[Figure]:
    found = []
    for waiting in (1, 16):
        for kind in KINDS:
            name = f"alone{waiting}"
            if kind == "postgres":
                server.execute(f"CREATE DATABASE {name}")
            store = open_store(server.url(name) if kind == "postgres" else folder / f"{name}.db")
            theirs, ours = database_cpu_us(server), time.process_time()
            rate = asyncio.run(store_alone(store, batches, waiting))
            cpu = 1e6 * (time.process_time() - ours) / batches
            database = (database_cpu_us(server) - theirs) / batches if kind == "postgres" else 0.0
            found.append(Figure(kind, f"store, {waiting} at once", round(rate, 1), round(cpu, 1), round(database, 1)))
    return found


def shown(figures: Sequence[Figure]) -> str:
    head = f"{'':24}{'store':>10}{'a second':>12}{'CPU, µs':>12}{'PostgreSQL, µs':>16}"
    lines = [
        f"{f.case:24}{f.store:>10}{f.per_second:12,.1f}{f.cpu_us:12,.0f}{f.database_cpu_us:16,.0f}" for f in figures
    ]
    return "\n".join([head, *lines])


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=40, help="of each client, a round")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    asked: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, own_server("fsync=on", "full_page_writes=on") as server:
        figures = through_the_proxy(server, Path(folder), asked.rounds, asked.requests, asked.clients)
        figures += stores_alone(server, Path(folder), asked.batches)
    print(json.dumps([asdict(figure) for figure in figures], indent=1) if asked.json else shown(figures))
    return figures


if __name__ == "__main__":
    main()
