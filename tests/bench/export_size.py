"""Exports of a large store: time, size and memory beside the raw database.

Run: python -m tests.bench.export_size 1000000 [jsonl verify ...]. Prints one line a step.
Memory is the peak of a process of its own that does nothing else.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from proxy.audit.exporting import write_files
from proxy.audit.verify import verify_export, verify_store
from proxy.core.filters import Filters
from proxy.core.records import Batch, Entry
from proxy.store.archive import Archive
from proxy.store.rows import write_batch
from proxy.store.sqlite_connection import connect_writer
from tests.proxy.store.rows import (
    make_body,
    make_branch,
    make_exchange,
    make_item,
    make_outcome,
    make_path,
    make_window,
)

A_TURN = 4
TURNS = 1250  # 5,000 messages a conversation
WORDS = ["harbour", "tide", "gauge", "survey", "error", "return", "def", "import", "value", "the", "of", "line", "42"]
PREFIX, SUFFIX = make_body('{"model":"gpt-x","tools":[],"messages":['), make_body("]}")


def turn(number: int, name: str, choose: random.Random) -> Batch:
    """What one call of an agent writes: four messages, a window that grew, an outcome."""
    bodies, items, entries = [PREFIX, SUFFIX], [], []
    for place in range(A_TURN):
        text = " ".join(choose.choices(WORDS, k=choose.choice((12, 40, 160))))
        body = make_body(f'{{"role":"user","content":"{name} {number} {place} {text}"}}')
        id = f"{name}i{number}x{place}"
        bodies.append(body)
        items.append(replace(make_item(id, conversation=name, branch=name, text=text), body=body.hash))
        entries.append(Entry(id, form=4, body=body.hash, tokens=len(text) // 4))
    window = make_window(f"{name}w{number}", f"{name}e{number}", [], base=f"{name}w{number - 1}" if number else "",
                         keep=number * A_TURN)  # fmt: skip
    window = replace(window, branch=name, tail=tuple(entries), prefix=PREFIX.hash, suffix=SUFFIX.hash, gaps=())
    ids = [item.id for item in items]
    path = make_path(f"{name}p{number}", ids, base=f"{name}p{number - 1}" if number else "", keep=number * A_TURN)
    return Batch(
        bodies=tuple(bodies),
        items=tuple(items),
        exchanges=(make_exchange(f"{name}e{number}", conversation=name, branch=name),),
        branches=(make_branch(name, version=number + 1, conversation=name, path=path.id, window=window.id),),
        paths=(replace(path, branch=name),),
        windows=(window,),
        outcomes=(make_outcome(f"{name}e{number}", input=1000, cached=900, output=50, cost=0.01, ended_at="2026"),),
    )


def fill(db: Path, messages: int) -> None:
    connection = connect_writer(db, "NORMAL")
    connection.execute("PRAGMA synchronous = OFF")
    choose = random.Random(1)
    for conversation in range(messages // (A_TURN * TURNS)):
        for start in range(0, TURNS, 50):
            connection.execute("BEGIN IMMEDIATE")
            for number in range(start, start + 50):
                write_batch(connection, turn(number, f"c{conversation}", choose))
            connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def step(name: str, db: Path, out: Path) -> None:
    """One export or check, in this process; its figures on one line."""
    started = time.monotonic()
    spent = time.process_time()
    files: list[Path] = []
    if name == "verify":
        with Archive(db) as archive:
            found = verify_store(archive, secret=None)
        assert found.holds, found.problems[:3]
    elif name == "verify-export":
        with out.with_suffix(".jsonl").open("rb") as file:
            assert verify_export(file).holds
    else:
        with Archive(db) as archive:
            files = write_files(archive, name, Filters(), out.with_suffix(f".{name}"), version="bench")  # type: ignore[arg-type]
    size = sum(file.stat().st_size for file in files)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:<14} {time.monotonic() - started:8.1f} s  {time.process_time() - spent:8.1f} s CPU"
        f"  {size / 2**20:8.1f} MB  peak memory {peak:6.0f} MB",
        flush=True,
    )


def main() -> None:
    if len(sys.argv) == 4 and not sys.argv[1].isdigit():
        step(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
        return
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    os.nice(10)
    with TemporaryDirectory() as folder:
        db = Path(folder) / "ctx.db"
        started = time.monotonic()
        fill(db, messages)
        took, size = time.monotonic() - started, db.stat().st_size / 2**20
        print(f"{messages:,} messages, written in {took:.0f} s; database {size:.1f} MB", flush=True)
        for name in sys.argv[2:] or ("jsonl", "verify", "verify-export", "chat", "parquet"):
            command = [sys.executable, "-m", "tests.bench.export_size", name, str(db), str(Path(folder) / "out")]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
