"""Every gateway side by side over loopback in one run: CPU a request and a chunk, added latency, throughput, memory.

Run it with `python -m tests.bench.gateways [--only NAME…] [--json FILE] [--readme]`. It
installs the peers once (Debian, pip and npm packages) below `--homes`, names those it cannot have,
and runs the others turn by turn against one cheap provider in a process of its own. Latency is
what a proxy adds to the direct call in the same round; CPU is that of its whole process tree.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.gateways_table import Figure, table, write_readme
from tests.bench.hot_path import CHUNKS, TICK_US, growing, large_list, openings, provider, same
from tests.bench.peers import KEY, Running, everyone, our_own
from tests.bench.ways import WAYS

Bodies = Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of load: `requests` over `connections` at once. `units` is what CPU is divided by, a request."""

    name: str
    bodies: Bodies
    requests: int
    connections: int = 1
    units: int = 1


def huge() -> Iterator[bytes]:
    """5 MB in 201 messages."""
    system = {"role": "system", "content": "You are a careful assistant."}
    roles = ("user", "assistant")
    messages = [
        {"role": roles[i % 2], "content": f"message number {i} " + "lorem ipsum dolor " * 1390} for i in range(199)
    ]
    return same([system, *messages, {"role": "user", "content": "go on"}])


def cases(scale: float) -> list[Case]:
    """The loads; `scale` multiplies the numbers of requests."""
    stream = [{"role": "user", "content": "stream please"}]

    def times(number: int) -> int:
        return max(2, int(number * scale))

    return [
        Case("small", openings, times(200)),
        Case("small, 16 at once", openings, times(400), 16),
        Case("small, 256 at once", openings, times(1024), 256),
        Case("440 KB, same", lambda: same(large_list()), times(40)),
        Case("440 KB, growing", growing, times(40)),
        Case("5 MB, same", huge, times(5)),
        Case("stream, per chunk", lambda: same(stream, stream=True), times(4), 1, CHUNKS),
        Case("stream, 16 at once, per chunk", lambda: same(stream, stream=True), times(32), 16, CHUNKS),
    ]


# -- load ----------------------------------------------------------------------------------------------


async def _reply(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """The whole body behind `head`, by whichever way it is framed."""
    if b"transfer-encoding: chunked" in head:
        parts: list[bytes] = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        await reader.readline()
        return b"".join(parts)
    length = next((line for line in head.split(b"\r\n") if line.startswith(b"content-length:")), None)
    return await (reader.read() if length is None else reader.readexactly(int(length.split(b":")[1])))


def _is_whole(head: bytes, reply: bytes) -> bool:
    """Is this the answer that the provider gave: a 200, and of a stream every chunk?"""
    is_stream = b"event-stream" in head
    return head.startswith(b"http/1.1 200") and (not is_stream or reply.count(b"data: ") >= CHUNKS)


async def _worker(target: Running, bodies: Iterator[bytes], left: list[int], took: list[float]) -> int:
    """One connection: asks until none are left. Returns how many were not answered whole."""
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port, limit=1 << 22)
    extra = "".join(f"{name}: {value}\r\n" for name, value in target.headers)
    failed = 0
    while left[0] > 0:
        left[0] -= 1
        body = next(bodies)
        head = (
            f"POST {target.path} HTTP/1.1\r\nhost: 127.0.0.1:{target.port}\r\nauthorization: Bearer {KEY}\r\n"
            f"content-type: application/json\r\n{extra}content-length: {len(body)}\r\n\r\n"
        )
        start = time.perf_counter()
        writer.write(head.encode() + body)
        await writer.drain()
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        reply = await _reply(reader, answer)
        took.append(time.perf_counter() - start)
        failed += not _is_whole(answer, reply)
        if b"connection: close" in answer or reader.at_eof():
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", target.port, limit=1 << 22)
    writer.close()
    return failed


async def _load(target: Running, case: Case, bodies: Iterator[bytes], requests: int) -> tuple[list[float], int, float]:
    left, took = [requests], list[float]()
    start = time.perf_counter()
    workers = [_worker(target, bodies, left, took) for _ in range(min(case.connections, requests))]
    outcomes = await asyncio.gather(*workers, return_exceptions=True)
    wall = time.perf_counter() - start
    failed = sum(outcome for outcome in outcomes if isinstance(outcome, int))
    return took, failed + requests - len(took), wall


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it ended while we looked
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for process in found:
        found.extend(children.get(process, ()))
    return found


def used_us(pids: Sequence[int]) -> float:
    """CPU that these processes have used, all their threads."""
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) * TICK_US
    return total


def rss_mb(pids: Sequence[int]) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


# -- measuring -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Rounds:
    """What is collected of one proxy in one case, a value a round."""

    cpu: list[float]
    p50: list[float]
    p99: list[float]
    rate: list[float]
    failed: int = 0


def run(case: Case, targets: Sequence[Running], rounds: int) -> list[Figure]:
    """All targets in one case, in turn within each round, so that a noisy moment meets them all."""
    bodies = {target.name: case.bodies() for target in targets}
    pids = {target.name: tree(target.pid) if target.pid else [] for target in targets}
    seen = {target.name: Rounds([], [], [], []) for target in targets}
    for target in targets:
        asyncio.run(_load(target, case, bodies[target.name], max(2, case.connections)))
    for _ in range(rounds):
        for target in targets:
            row = seen[target.name]
            before = used_us(pids[target.name])
            took, failed, wall = asyncio.run(_load(target, case, bodies[target.name], case.requests))
            row.cpu.append((used_us(pids[target.name]) - before) / (case.requests * case.units))
            ordered = sorted(took) or [0.0]
            row.p50.append(ordered[len(ordered) // 2] * 1000)
            row.p99.append(ordered[len(ordered) * 99 // 100] * 1000)
            row.rate.append(len(took) / wall)
            row.failed += failed
    return [
        Figure(case.name, name, tuple(r.cpu), tuple(r.p50), tuple(r.p99), tuple(r.rate), rss_mb(pids[name]), r.failed)
        for name, r in seen.items()
    ]


@contextmanager
def provider_process() -> Iterator[str]:
    """The provider of the hot-path bench, in a process of its own so that it does not share the client's lock."""
    command = [sys.executable, "-m", "tests.bench.gateways", "--provider"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", default=(), help="peers to run beside plain and undercliff")
    parser.add_argument("--homes", type=Path, default=Path.home() / ".cache/undercliff-bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of requests")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--readme", action="store_true", help="write the table and the plot of the README anew")
    arguments = parser.parse_args()
    if arguments.provider:
        with provider() as url:
            print(url, flush=True)
            sys.stdin.read()  # until the bench is gone
        return
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        provider_process() as url,
        everyone(url, arguments.homes, Path(scratch), arguments.only) as targets,
    ):
        for case in cases(arguments.scale):
            figures += run(case, targets, arguments.rounds)
            print(f"measured {case.name}", file=sys.stderr)
        base = [target for target in targets if target.name in ("direct", "plain")]
        for way in WAYS:
            with our_own(f"{url}{way.path}", way.settings, way.models) as ours:
                load = Case(way.name, way.bodies, max(2, int(40 * arguments.scale)))
                figures += run(load, [*base, ours], arguments.rounds)
            print(f"measured {way.name}", file=sys.stderr)
    print(table(figures))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))
    if arguments.readme:
        write_readme(figures)


if __name__ == "__main__":
    main()
