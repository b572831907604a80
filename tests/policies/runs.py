"""Small made-up runs for tests of the scorer: an agent that reads, searches, edits and tests files."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace

from policies.model import Candidate, Kind
from policies.testing import make_candidate

NAMES = ("mole", "quay", "sluice", "berth", "gauge", "beacon", "weir", "ferry", "pilot", "buoy", "basin", "lock")


def run(calls: int, seed: int = 1, lines: int = 30) -> tuple[Candidate, ...]:
    """System, first user message and `calls` exchanges; the last exchange has not been seen yet."""
    chance = random.Random(seed)
    made: list[Candidate] = []
    add(made, "system", "You keep a harbour's software in order. Never touch db/migrations.", is_pinned=True)
    add(made, "user", "Find out why the sluice opens late, and repair it.", is_pinned=True)
    for call in range(1, calls + 1):
        name = chance.choice(NAMES)
        kind = chance.choice(("read", "search", "edit", "run"))
        exchange(made, call, kind, f"{name}_{chance.randint(1, 9)}.py", chance, lines)
    return seen(made)


def exchange(made: list[Candidate], call: int, kind: str, file: str, chance: random.Random, lines: int = 30) -> None:
    command = {
        "read": f"cat harbour/{file}",
        "search": f"grep -rn {chance.choice(NAMES)} harbour",
        "edit": f"cat > harbour/{file} <<'EOF'\n{code(chance, 6)}\nEOF",
        "run": f"python -m pytest tests/test_{file}",
    }[kind]
    text = f"Next I look at {file}.\nbash({json.dumps({'command': command})})"
    add(made, "assistant", text, call=call)
    body = {"read": code(chance, lines), "search": hits(chance, lines), "edit": "", "run": hits(chance, lines // 2)}[
        kind
    ]
    add(made, "tool_result", body, call=call, tool="bash", source=command, group=made[-1].group)


def code(chance: random.Random, lines: int) -> str:
    out: list[str] = []
    for _ in range(lines // 2):
        a, b, n = chance.choice(NAMES), chance.choice(NAMES), chance.randint(10, 9_999)
        out += [f"def open_{a}_{n}(level, tide={n}):", f"    return survey_{b}(level) + {n}"]
    return "\n".join(out)


def hits(chance: random.Random, lines: int) -> str:
    found = ((chance.choice(NAMES), chance.randint(1, 400), chance.choice(NAMES)) for _ in range(lines))
    return "\n".join(f"harbour/{a}.py:{n}: {b} = {chance.randint(0, 99_999)}" for a, n, b in found)


def add(
    made: list[Candidate], kind: Kind, text: str, *, call: int = 0, is_pinned: bool = False, tool: str = "",
    source: str = "", group: int | None = None,
) -> None:  # fmt: skip
    number = (made[-1].group + 1 if made else 0) if group is None else group
    made.append(
        make_candidate(
            len(made), kind, len(text) // 4 + 5, group=number, call=call, is_pinned=is_pinned, text=text, tool=tool,
            source=source,
        )
    )  # fmt: skip


def seen(made: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """All has been seen but the last exchange."""
    newest = made[-1].call
    return tuple(replace(c, is_seen=c.call < newest) for c in made)
