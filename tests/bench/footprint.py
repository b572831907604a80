"""What each gateway is before it does anything: installed size, packages, start-up time and CPU, resident memory.

Run it with `python -m tests.bench.footprint [--only NAME…]`. undercliff is installed into a fresh virtual
environment from this checkout; the peers are those of `tests.bench.gateways`, installed once below `--homes`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.gateways import provider_process, rss_mb, tree, used_us
from tests.bench.peers import PEERS, NotInstalledError, Peer
from tests.support.serve import ROOT


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    installed_mb: float
    packages: int
    ready_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    rss_mb: float


def _install_ours(home: Path) -> None:
    venv.create(home, with_pip=True)
    command = [home / "bin/pip", "install", "-q", "--disable-pip-version-check", str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _serve_ours(home: Path, url: str, port: int, scratch: Path) -> Sequence[str]:
    config = scratch / "config.toml"
    config.write_text(f'[upstream]\nurl = "{url}/v1"\n[store]\nurl = "{scratch / "undercliff.db"}"\n')
    return [str(home / "bin/undercliff"), "serve", "--config", str(config), "--port", str(port)]


OURS = Peer("undercliff", _install_ours, _serve_ours)


def size_mb(home: Path) -> float:
    """What lies on the disk, links counted once, less the installer itself."""
    skipped = ("/pip/", "/setuptools/", "/.cache/")
    files = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in files if not any(part in str(path) for part in skipped)) / 1e6


def packages(home: Path) -> int:
    """Distributions of Python, or packages of Node."""
    python = {path.name for path in home.glob("lib/python*/site-packages/*.dist-info")}
    node = [*home.rglob("node_modules/*/package.json"), *home.rglob("node_modules/@*/*/package.json")]
    return len([name for name in python if not name.startswith(("pip-", "setuptools-"))]) + len(node)


def measure(peer: Peer, homes: Path, url: str, scratch: Path, rounds: int) -> Figure:
    ready, cpu, memory = [], [], 0.0
    for number in range(rounds):
        started = time.monotonic()
        with peer.run(homes, url, scratch / str(number)) as running:
            ready.append(time.monotonic() - started)
            pids = tree(running.pid)
            cpu.append(used_us(pids) / 1e6)
            memory = rss_mb(pids)
    home = homes / peer.name
    return Figure(peer.name, size_mb(home), packages(home), tuple(ready), tuple(cpu), memory)


def bare_python(rounds: int) -> float:
    """Seconds that the interpreter itself needs to begin and end: the floor for all that is written in Python."""
    times = []
    for _ in range(rounds):
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(time.monotonic() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--homes", type=Path, default=Path.home() / ".cache/undercliff-bench")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{'':18}{'MB installed':>13}{'packages':>10}{'ready s':>9}{'CPU s':>8}{'MB in memory':>14}")
    with tempfile.TemporaryDirectory() as scratch, provider_process() as url:
        for peer in (OURS, *PEERS):
            if arguments.only and peer.name not in arguments.only:
                continue
            homes = Path(scratch) if peer is OURS else arguments.homes
            try:
                f = measure(peer, homes, url, Path(scratch) / "run", arguments.rounds + (peer is OURS))
            except NotInstalledError as error:
                print(f"skipped {error}", file=sys.stderr)
                continue
            ready, cpu = (statistics.median(values[peer is OURS :]) for values in (f.ready_s, f.cpu_s))
            print(f"{f.name:18}{f.installed_mb:>13,.0f}{f.packages:>10}{ready:>9.2f}{cpu:>8.2f}{f.rss_mb:>14,.0f}",
                  flush=True)  # fmt: skip
    print(f"the interpreter alone: {bare_python(5):.2f} s")


if __name__ == "__main__":
    main()
