"""A conversation of millions of tokens, generated: `python -m tests.bench.long_talk --tokens 5000000`.

Real store, real turns, no sockets. Prints, for every tenth of the way: time per request (its linear pass over the
bytes, and the rest), memory, database growth per new item, billed input against the cliff.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from proxy.store.open import open_store
from tests.support import builders
from tests.support.replaying import Replay, replay

CLIFF = 272_000
WINDOW = 400_000
WORDS = ("gauge", "berth", "mole", "sluice", "tide", "quay", "ledger", "pilot", "buoy", "draught", "anchor", "lock")
STEP_CHARS = 16_000
TALK_EVERY = 6


def prose(number: int, chars: int) -> str:
    """Text that no other number gives, of words that the tokenizer knows."""
    words = []
    size = 0
    seed = number * 2654435761 % 2**32
    while size < chars:
        seed = (seed * 1103515245 + 12345) % 2**31
        word = f"{WORDS[seed % len(WORDS)]} {seed % 977}" if seed % 3 else WORDS[seed % len(WORDS)]
        words.append(word)
        size += len(word) + 1
        if seed % 11 == 0:
            words.append("\n")
    return " ".join(words)[:chars]


def database_bytes(path: Path) -> int:
    """What the rows take, whether they are in the file or still in its log."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * size)


async def run(tokens: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.db"
        store = open_store(path)
        await store.open()
        made = replay(Path(folder), store, models={"*": {"window": WINDOW, "cliff": CLIFF}})
        made.add(builders.system(), builders.user("Read every gauge. Never touch db/migrations."))
        print(f"{'raw tokens':>12} {'items':>7} {'decode ms':>9} {'rest ms':>8} {'RSS MB':>7} {'KB/item':>8} "
              f"{'window':>8} {'folds':>6} {'over cliff':>10}")  # fmt: skip
        await _talk(made, path, tokens)
        await store.aclose()


async def _talk(made: Replay, path: Path, tokens: int) -> None:
    marks = [tokens * tenth // 10 for tenth in range(1, 11)]
    raw = over = number = 0
    items, size = len(made.pieces), 0
    decode, rest = [0.0], [0.0]
    conversation = ""
    while marks:
        number += 1
        call_id = f"call_{number:06}"
        step = [
            builders.assistant(f"Reading berth {number}.", [builders.call(call_id, "read", berth=number)]),
            builders.result(call_id, prose(number, STEP_CHARS)),
        ]
        turn = await made.call(step[0])
        made.add(step[1])
        if number % TALK_EVERY == 0:
            turn = await made.call(builders.assistant(f"Berth {number} is read."))
            made.add(builders.user(f"Then go on with berth {number + 1}; keep {prose(number, 120)}"))
        started = time.perf_counter()
        made.fmt.decode(b'{"model":"scripted-1","messages":[' + b",".join(made.pieces[:-1]) + b"]}", {})
        decode.append(time.perf_counter() - started)
        rest.append(made.begin_s - decode[-1])
        raw = turn.measured.tokens
        over += turn.limits.billed(turn.estimate) > CLIFF and turn.live.state.calls > 1
        conversation = turn.placement.conversation
        if raw >= marks[0]:
            grown = database_bytes(path)
            new = len(made.pieces) - items
            folds = await made.store.folds(conversation)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(f"{raw:>12,} {len(made.pieces):>7,} {median(decode):>9.1f} {median(rest):>8.1f} {memory:>7,} "
                  f"{(grown - size) / new / 1024:>8.1f} {turn.estimate:>8,} {len(folds):>6} {over:>10}",
                  flush=True)  # fmt: skip
            items, size, decode, rest = len(made.pieces), grown, [0.0], [0.0]
            marks.pop(0)


def median(times: list[float]) -> float:
    """Of all but the start value, in milliseconds."""
    ordered = sorted(times[1:]) or [0.0]
    return ordered[len(ordered) // 2] * 1000


def main() -> None:
    parser: Any = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=5_000_000)
    asyncio.run(run(parser.parse_args().tokens))


if __name__ == "__main__":
    main()
