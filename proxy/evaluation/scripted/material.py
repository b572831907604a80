"""Seeded names, values and tool output for the stories: nobody can have learned them by heart. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

_STARTS = (
    "Bar",
    "Cal",
    "Dor",
    "Fen",
    "Gal",
    "Har",
    "Ine",
    "Jor",
    "Kel",
    "Lum",
    "Mar",
    "Nor",
    "Ost",
    "Pel",
    "Quin",
    "Ros",
)
_ENDS = (
    "bryn",
    "dale",
    "eck",
    "ford",
    "gate",
    "holm",
    "ick",
    "land",
    "mere",
    "nes",
    "ova",
    "rast",
    "stad",
    "tun",
    "wick",
)
_NOUNS = (
    "queue",
    "ledger",
    "batch",
    "cursor",
    "window",
    "parcel",
    "sensor",
    "invoice",
    "tenant",
    "replica",
    "route",
    "quota",
)
_VERBS = ("opened", "checked", "sorted", "merged", "skipped", "retried", "signed", "moved", "counted", "closed")
_STATES = ("ok", "late", "idle", "busy", "stale", "new")

KINDS: dict[str, tuple[str, Callable[[Random], str]]] = {
    "word": (r"[A-Z][a-z]+", lambda r: r.choice(_STARTS) + r.choice(_ENDS)),
    "id": (r"[A-Z]{2}-\d{5}", lambda r: f"{r.choice('BCDFGHKM')}{r.choice('LNPRSTVX')}-{r.randrange(10_000, 99_999)}"),
    "time": (r"\d\d:\d\d", lambda r: f"{r.randrange(24):02}:{r.randrange(60):02}"),
    "date": (r"\d{4}-\d\d-\d\d", lambda r: f"20{r.randrange(27, 40)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"),
    "money": (r"\d+\.\d\d", lambda r: f"{r.randrange(100, 9_000)}.{r.randrange(100):02}"),
    "number": (r"\d+", lambda r: str(r.randrange(1_000, 99_999))),
    "path": (r"[a-z]+/[a-z_]+\.[a-z]+", lambda r: f"{r.choice(_NOUNS)}s/{r.choice(_NOUNS)}_{r.choice(_VERBS)}.py"),
    "host": (r"[a-z]+-[a-z]+-\d+", lambda r: f"{r.choice(_NOUNS)}-{r.choice(_ENDS)}-{r.randrange(100, 999)}"),
    "version": (r"\d+\.\d+\.\d+", lambda r: f"{r.randrange(2, 9)}.{r.randrange(10, 60)}.{r.randrange(10, 99)}"),
    "sha": (r"[0-9a-f]{10}", lambda r: f"{r.getrandbits(40):010x}"),
}
"""Kind of a value: (its shape, how one is made)."""


def make(kind: str, random: Random) -> str:
    """Raises KeyError for a kind that there is not."""
    return KINDS[kind][1](random)


def shape(kind: str) -> str:
    return KINDS[kind][0]


def _log(random: Random, number: int) -> str:
    moment = f"{number // 60 % 24:02}:{number % 60:02}:{random.randrange(60):02}"
    what = f"{random.choice(_NOUNS)}.{random.choice(_NOUNS)} {random.choice(_VERBS)} {random.randrange(4000)}"
    return f"{moment} {what} in {random.randrange(900)} ms"


def _table(random: Random, number: int) -> str:
    name = random.choice(_STARTS) + random.choice(_ENDS)
    price = f"{random.randrange(10, 999)}.{random.randrange(100):02}"
    return f"{number:04},{name},{random.choice(_STATES)},{random.randrange(1, 400)},{price}"


def _code(random: Random, number: int) -> str:
    if number % 12 == 0:
        return f"\ndef {random.choice(_VERBS)}_{random.choice(_NOUNS)}_{number}(rows: list[int]) -> int:"
    value = f"{random.choice(_NOUNS)}[{random.randrange(40)}] + {random.randrange(200)}"
    return f"    {random.choice(_NOUNS)} = {value}  # {random.choice(_VERBS)}"


def _record(random: Random, number: int) -> str:
    name = random.choice(_STARTS) + random.choice(_ENDS)
    return f'{{"n": {number}, "who": "{name}", "state": "{random.choice(_STATES)}", "of": {random.randrange(9_000)}}}'


def _page(random: Random, number: int) -> str:
    words = [random.choice((*_NOUNS, *_VERBS, "the", "of", "a", "after", "before", "and")) for _ in range(14)]
    return f"{number}. {' '.join(words)}."


_LINES: dict[str, Callable[[Random, int], str]] = {
    "log": _log,
    "table": _table,
    "code": _code,
    "records": _record,
    "page": _page,
}


def output(kind: str, count: int, random: Random, planted: list[str]) -> str:
    """`count` lines of tool output with the planted ones somewhere between a fifth and four fifths of it."""
    lines = [_LINES[kind](random, number) for number in range(count)]
    for line in planted:
        lines.insert(random.randrange(count // 5, max(count * 4 // 5, count // 5 + 1)), line)
    return "\n".join(lines)


def is_output(kind: str) -> bool:
    return kind in _LINES


PLACEHOLDER = re.compile(r"\{([?]?)([a-z_]+)(!?)\}")
"""`{name}` its value; `{name!}` a new value from here on; `{?name}` what the window says it is."""
