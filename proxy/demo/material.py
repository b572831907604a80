"""Invented tool output for the scripted session: search hits, JSON rows, logs with one ERROR line, code. Seeded."""

from __future__ import annotations

import json
from random import Random

PLACES = ("berth", "mole", "slip", "lock", "crane", "buoy", "dock", "ramp", "quay", "basin")
THINGS = ("booking", "tariff", "invoice", "tide", "vessel", "permit", "crew", "cargo", "pilot", "ledger")
DEEDS = ("load", "merge", "reserve", "release", "settle", "renew", "split", "close", "audit", "assign")
NAMES = ("Aurelia", "Bramble", "Corvid", "Dunlin", "Eider", "Fulmar", "Gannet", "Heron", "Ibis", "Jacana")

LEDGER = "src/quayside/ledger.py"
FILES = (
    LEDGER,
    *(f"src/quayside/{place}/{deed}.py" for place, deed in zip(PLACES, DEEDS, strict=True)),
    *(f"tests/test_{thing}.py" for thing in THINGS),
)


def search_hits(rng: Random, size: int, query: str) -> str:
    """As a line search prints them: path, line number, the line."""
    lines: list[str] = []
    length = 0
    while length < size:
        place, thing, deed = rng.choice(PLACES), rng.choice(THINGS), rng.choice(DEEDS)
        where = f"{rng.choice(FILES)}:{rng.randint(4, 900)}"
        line = f"{where}:    {thing} = {deed}_{query}({place}, mark={rng.randint(1, 9999)})"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


def json_rows(rng: Random, size: int) -> str:
    """An array of bookings as a query tool answers it."""
    rows: list[dict[str, object]] = []
    length = 2
    while length < size:
        number = rng.randint(10_000, 99_999)
        row: dict[str, object] = {
            "id": f"BR-{number}",
            "vessel": f"{rng.choice(NAMES)} {rng.randint(1, 40)}",
            "berth": rng.randint(1, 64),
            "from": f"2031-0{rng.randint(1, 9)}-{rng.randint(10, 28)}",
            "nights": rng.randint(1, 21),
            "state": rng.choice(("held", "paid", "moved", "void")),
            "fee": round(rng.uniform(40, 900), 2),
        }
        rows.append(row)
        length += len(json.dumps(row)) + 1
    return json.dumps(rows, separators=(",", ":"))


def log_lines(rng: Random, size: int, error: str, place: float) -> str:
    """A service's log with one ERROR line at `place` (0 to 1) of its length."""
    lines: list[str] = []
    length, clock, is_told = 0, rng.randint(0, 40_000), False
    while length < size or not is_told:
        clock += rng.randint(1, 9)
        stamp = f"2031-04-11T{clock // 3600 % 24:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}Z"
        if not is_told and length >= size * place:
            line, is_told = f"{stamp} {error}", True
        else:
            deed, thing = rng.choice(DEEDS), rng.choice(THINGS)
            what = f"{deed} {thing} {rng.randint(100, 999)}"
            line = f"{stamp} INFO  {what} took {rng.randint(1, 480)} ms, worker {rng.randint(1, 8)}"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


def code_text(rng: Random, size: int, path: str) -> str:
    """A module of small functions."""
    lines = [f'"""{path.rsplit("/", 1)[-1]}: part of the booking service."""', "", "from quayside import store", ""]
    length = sum(map(len, lines))
    while length < size:
        deed, thing, place = rng.choice(DEEDS), rng.choice(THINGS), rng.choice(PLACES)
        limit = rng.randint(2, 400)
        block = [
            f"def {deed}_{thing}_{limit}({place}, {thing}s):",
            f"    if len({thing}s) > {limit}:",
            f"        raise ValueError('too many {thing}s at ' + {place}.name)",
            f"    for {thing} in sorted({thing}s, key=lambda entry: entry.{rng.choice(('start', 'fee', 'mark'))}):",
            f"        store.{deed}({place}.id, {thing}.id, limit={limit})",
            f"    return store.count('{thing}', {place}.id)",
            "",
        ]
        lines += block
        length += sum(len(line) + 1 for line in block)
    return "\n".join(lines)


def edited(text: str, version: int) -> str:
    """The same module after a small change: one line more, one line other."""
    lines = text.split("\n")
    spot = 12 + version * 7 % max(len(lines) - 14, 1)
    lines[spot:spot] = [f"# revision {version}: keep the hold until the tide has turned"]
    return "\n".join(lines)
