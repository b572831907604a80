"""Many streams at once: delay of every chunk, memory of every open stream, and a soak.

Run it with `python -m tests.bench.streams [--streams 256] [--per-second 10] [--grow] [--soak 10000]`. The provider is a
process of its own and writes the moment of sending into every chunk; a delay is what passes until
the client has it. Direct, plain pass-through and undercliff take turns in one run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.bench.gateways import rss_mb, tree, used_us
from tests.bench.hot_path import STREAM_HEAD
from tests.bench.peers import Running, plain
from tests.support.serve import served_process

MOMENT = re.compile(rb'"content": "(\d{12,})"')
CONNECTIONS = 12_000
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


# -- the provider ------------------------------------------------------------------------------------


def _event(**choice: object) -> bytes:
    document = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    data = b"data: %s\n\n" % json.dumps({**document, "choices": [{"index": 0, **choice}]}).encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A stream of `chunks` chunks, `pause` seconds apart, as the request's own fields ask for."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))[15:])
            asked = json.loads(await reader.readexactly(length))
            writer.write(STREAM_HEAD)
            for _ in range(asked["chunks"]):
                writer.write(_event(delta={"content": str(time.monotonic_ns())}, finish_reason=None))
                await asyncio.sleep(asked["pause"])
            writer.write(_event(delta={}, finish_reason="stop") + END)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@contextmanager
def provider_process() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.bench.streams", "--provider"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


# -- the client --------------------------------------------------------------------------------------


async def _stream(port: int, number: int, chunks: int, pause: float, delays: list[float]) -> bool:
    """One stream, read to its end. Was it whole?"""
    body = json.dumps(
        {
            "model": "m",
            "stream": True,
            "chunks": chunks,
            "pause": pause,
            "messages": [{"role": "user", "content": f"stream number {number} at {time.monotonic_ns()}, please"}],
        }
    ).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-abc\r\nconnection: close\r\n"
    writer.write(head + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
    answer = await reader.readuntil(b"\r\n\r\n")
    seen, rest = 0, b""
    while part := await reader.read(1 << 16):
        now = time.monotonic_ns()
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if found := MOMENT.search(line):
                delays.append((now - int(found[1])) / 1e6)
                seen += 1
        if rest.startswith(b"0\r") or b"0\r" in lines:
            break
    writer.close()
    return b" 200 " in answer and seen == chunks


async def _slot(port: int, number: int, wait: float, chunks: int, pause: float, delays: list[float]) -> int:
    """Two streams after each other, the first one `wait` seconds from now. How many were not whole?"""
    await asyncio.sleep(wait)
    wholes = [await _stream(port, number, chunks, pause, delays) for _ in range(2)]
    return wholes.count(False)


async def _spread(port: int, count: int, chunks: int, pause: float) -> tuple[list[float], int]:
    """So many open at any time, their beginnings spread evenly. Every delay in ms, and how many were not whole."""
    delays: list[float] = []
    life = chunks * pause
    slots = (_slot(port, n, n / count * life, chunks, pause, delays) for n in range(count))
    return delays, sum(await asyncio.gather(*slots))


async def _at_once(port: int, count: int, chunks: int, pause: float) -> int:
    """So many that begin together; how many were not whole."""
    outcomes = await asyncio.gather(*(_stream(port, n, chunks, pause, []) for n in range(count)))
    return outcomes.count(False)


@dataclass(frozen=True, slots=True)
class Figure:
    """One target with `streams` open at once. Delays in ms; CPU in microseconds a chunk; memory in MB."""

    name: str
    streams: int
    p50: float
    p99: float
    cpu: float
    kb_per_stream: float
    failed: int


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values) or [0.0]
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def measure(target: Running, streams: int, per_second: float, seconds: float) -> Figure:
    pids = tree(target.pid) if target.pid else []
    chunks = max(2, int(per_second * seconds))
    memory, used = rss_mb(pids), used_us(pids)

    async def watched() -> tuple[list[float], int, float]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_spread(target.port, streams, chunks, 1 / per_second))
            await asyncio.sleep(seconds)
            open_memory = rss_mb(pids)
        return *task.result(), open_memory

    delays, failed, open_memory = asyncio.run(watched())
    return Figure(
        target.name,
        streams,
        _percentile(delays, 0.5),
        _percentile(delays, 0.99),
        (used_us(pids) - used) / (2 * streams * chunks),
        (open_memory - memory) * 1000 / streams,
        failed,
    )


async def _soak(port: int, total: int, at_once: int, note: list[float], pids: Sequence[int]) -> int:
    failed = 0
    for _ in range(total // at_once):
        failed += await _at_once(port, at_once, 8, 0.02)
        note.append(rss_mb(pids))
    return failed


def _table(figures: Sequence[Figure]) -> None:
    print(f"{'streams':>8} {'':12}{'p50 ms':>9}{'p99 ms':>9}{'CPU µs/chunk':>14}{'KB/stream':>11}")
    for f in figures:
        note = f"  {f.failed} FAILED" if f.failed else ""
        print(f"{f.streams:>8,} {f.name:12}{f.p50:>9.2f}{f.p99:>9.2f}{f.cpu:>14.0f}{f.kb_per_stream:>11.0f}{note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--per-second", type=float, default=5, help="chunks a second of each stream")
    parser.add_argument("--seconds", type=float, default=10, help="life of a stream")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--grow", action="store_true", help="1, 16, 256, 1,000 and 2,000 streams of a chunk a second")
    parser.add_argument("--soak", type=int, default=0, help="so many streams in all, 500 at once")
    arguments = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if arguments.provider:
        asyncio.run(_serve())
        return
    with ExitStack() as stack:
        url = stack.enter_context(provider_process())
        served = stack.enter_context(served_process(f"{url}/v1", upstream__max_connections=CONNECTIONS))
        assert served.process is not None
        ours = Running("undercliff", served.port, served.process.pid)
        targets = [Running("direct", int(url.rpartition(":")[2]), 0), stack.enter_context(plain(url)), ours]
        if arguments.grow:
            for count in (1, 16, 256, 1000, 2000):
                _table([measure(target, count, 1, 10) for target in targets])
        elif not arguments.soak:
            rounds = [
                measure(target, arguments.streams, arguments.per_second, arguments.seconds)
                for _ in range(arguments.rounds)
                for target in targets
            ]
            _table(rounds)
            added = [b.p99 - a.p99 for a, b in zip(rounds[1::3], rounds[2::3], strict=True)]
            print(f"p99 added to plain: {', '.join(f'{ms:.2f}' for ms in added)} ms; "
                  f"median {statistics.median(added):.2f}")  # fmt: skip
        if arguments.soak:
            memory = [rss_mb(tree(ours.pid))]
            failed = asyncio.run(_soak(ours.port, arguments.soak, 500, memory, tree(ours.pid)))
            print(f"soak of {arguments.soak:,} streams, resident MB after each 500: "
                  f"{' '.join(f'{mb:.0f}' for mb in memory)}; {failed} not whole")  # fmt: skip


if __name__ == "__main__":
    main()
