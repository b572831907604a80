"""kill -9 at random moments under load: nothing that was acknowledged is missing, and the file is whole."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[3]
_ROUNDS = int(os.environ.get("UNDERCLIFF_KILL_ROUNDS", "20"))


def run_and_kill(path: Path, round_number: int, delay_s: float) -> set[str]:
    """Start the writer, kill it `delay_s` after its first acknowledgement, return all it acknowledged."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.proxy.store.kill_child", str(path), str(round_number * 1_000_000), "k"],
        stdout=subprocess.PIPE,
        cwd=_ROOT,
    )
    assert child.stdout is not None
    with child.stdout:
        first = child.stdout.readline()
        killer = threading.Timer(delay_s, os.kill, (child.pid, signal.SIGKILL))
        killer.start()
        rest = child.stdout.read()
        killer.join()
    assert child.wait() == -signal.SIGKILL
    return {line.decode() for line in (first + rest).split(b"\n")[:-1]}


def missing(path: Path, acknowledged: set[str]) -> set[str]:
    """Open the file as the next start would find it and look for every row."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO items_fts (items_fts, rank) VALUES ('integrity-check', 0)")
        stored = {row[0] for row in connection.execute("SELECT id FROM messages")}
        stored |= {f"exchange:{row[0]}" for row in connection.execute("SELECT id FROM exchanges")}
        in_view = connection.execute("SELECT count(DISTINCT branch || ' ' || item) FROM working").fetchone()[0]
        assert in_view == connection.execute("SELECT count(*) FROM messages").fetchone()[0]
    return acknowledged - stored


def kill_rounds(folder: Path, rounds: int, seed: int = 0) -> int:
    """How many ids were acknowledged over all rounds. Raises when one is missing or the file is damaged."""
    moments = random.Random(seed)
    path, acknowledged = folder / "ctx.db", set[str]()
    for number in range(rounds):
        acknowledged |= run_and_kill(path, number, moments.uniform(0.0, 0.25))
        lost = missing(path, acknowledged)
        assert not lost, f"round {number}: {len(lost)} acknowledged rows are missing, such as {sorted(lost)[:3]}"
    return len(acknowledged)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_killed(tmp_path: Path) -> None:
    assert kill_rounds(tmp_path, _ROUNDS) > _ROUNDS
