"""Small recorded runs of our own: files are read, much is looked at, and what was read early is used late."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from proxy.evaluation.recorded.labels import derive
from proxy.evaluation.recorded.runs import Run, run_of
from proxy.tokenizer import Tokenizer

Message = dict[str, Any]


def call(number: int, name: str, **arguments: Any) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


def result(number: int, text: str) -> Message:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def filler(random: Random, lines: int) -> list[str]:
    words = ("harbour", "gauge", "ledger", "sluice", "berth", "cargo", "tide", "lamp", "crane", "signal")
    return [" ".join(random.choice(words) for _ in range(11)) + f" {random.randrange(100)}" for _ in range(lines)]


def messages(seed: int = 1, files: int = 24, lines: int = 40) -> list[Message]:
    """Each file has a line that only it has; every third step an edit copies the line of one read some time before."""
    random = Random(seed)
    found: list[Message] = [
        {"role": "system", "content": "You keep the tables."},
        {"role": "user", "content": "Bring the tables in order; start with the first."},
    ]
    special = [
        f"limit_{seed}{number:02}_of_berth = {random.randrange(10**7, 10**8)}  # checked by hand"
        for number in range(files)
    ]
    number = 0
    for place in range(files):
        text = filler(random, lines)
        text.insert(random.randrange(lines), special[place])
        found += [call(number, "read_file", path=f"src/table_{place:02}.py"), result(number, "\n".join(text))]
        number += 1
        if place % 3 == 2:
            old = max(0, place - random.choice((2, 5, 5, 6, 7, 13)))
            edit = {"path": f"src/table_{place:02}.py", "new": f"first\n{special[old]}\nlast"}
            found += [call(number, "edit_file", **edit), result(number, "written")]
            number += 1
    return [*found, {"role": "assistant", "content": "Done."}]


def run(seed: int = 1, **shape: int) -> Run:
    listed = messages(seed, **shape)
    return derive(run_of(f"made-{seed}", listed, Tokenizer()), listed)


def said(role: str, text: str) -> Message:
    return {"role": role, "content": text}
