"""PERF-06: the database stands still while requests come at a steady rate. Are they served, and is what waits bounded?

Run it with `python -m tests.bench.paused [--seconds 60] [--rate 50]`. The server's processes are stopped, not killed:
connections are open, and nothing answers. Afterwards every row must be there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.bench.gateways import rss_mb
from tests.bench.replicas import wait_drained
from tests.support import builders, replies
from tests.support.postgres import own_server
from tests.support.serve import ServedProcess, served_process
from tests.support.upstream import ScriptedUpstream

WORKERS = 16


@dataclass(slots=True)
class Paused:
    """Seconds of each request, in order of their start, before the pause and in it."""

    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    failed: int = 0
    rss_before: float = 0.0
    rss_most: float = 0.0
    spool_mb: float = 0.0
    drained_s: float = 0.0
    missing: int = 0
    is_degraded: bool = False


def load(proxy: ServedProcess, seconds: float, rate: float, name: str, found: list[float], made: Paused) -> list[str]:
    """Requests at a rate, each a conversation of its own. Returns what they said."""
    count = int(seconds * rate)
    started = time.monotonic()
    lock = threading.Lock()

    def ask(number: int) -> str:
        time.sleep(max(started + number / rate - time.monotonic(), 0))
        text = f"{name} {number}"
        began = time.perf_counter()
        with httpx.Client(trust_env=False, timeout=30) as http:
            reply = http.post(f"{proxy.base_url}/chat/completions", json=builders.request([builders.user(text)]))
        with lock:
            found.append(time.perf_counter() - began)
            made.failed += reply.status_code != 200
            made.rss_most = max(made.rss_most, rss_mb([proxy.process.pid]) if proxy.process else 0)
        return text

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(ask, range(count)))


def play(seconds: float, rate: float) -> Paused:
    """A while of peace, the pause, and the wait until all is written. The caller looks at what came out."""
    made = Paused()
    with (
        tempfile.TemporaryDirectory() as name,
        own_server() as server,
        ScriptedUpstream(lambda _: replies.json_reply(replies.completion("noted"))) as up,
    ):
        folder = Path(name)
        places = {
            "store__url": server.url(),
            "store__secret_file": str(folder / "s"),
            "store__spool": str(folder / "q"),
        }
        with served_process(up.base_url, folder, **places) as proxy:
            assert proxy.process is not None
            texts = load(proxy, min(seconds, 5), rate, "calm", made.before, made)
            made.rss_before = rss_mb([proxy.process.pid])
            with server.frozen():
                texts += load(proxy, seconds, rate, "paused", made.during, made)
                health = httpx.get(f"{proxy.url}/ctx/health", timeout=10).json()
                made.is_degraded = health["store"] == "degraded"
                made.spool_mb = sum(one.stat().st_size for one in (folder / "q").rglob("*") if one.is_file()) / 1e6
            resumed = time.monotonic()
            wait_drained(proxy)
            made.drained_s = time.monotonic() - resumed
        kept = b"\n".join(bytes(text) for (text,) in server.execute("SELECT text FROM messages WHERE role = 'user'"))
        made.missing = sum(text.encode() not in kept for text in texts)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=50)
    asked = parser.parse_args()
    made = play(asked.seconds, asked.rate)
    for title, times in (("before", made.before), ("paused", made.during)):
        cut = statistics.quantiles(times, n=100)
        print(f"{title}: {len(times)} requests, median {1000 * cut[49]:.0f} ms, p99 {1000 * cut[98]:.0f} ms")
    print(f"failed {made.failed}, missing afterwards {made.missing}; degraded was said: {made.is_degraded}")
    print(f"memory {made.rss_before:.0f} MB, at most {made.rss_most:.0f}; {made.spool_mb:.1f} MB waited on disk")
    print(f"all written {made.drained_s:.1f} s after the database went on")


if __name__ == "__main__":
    main()
