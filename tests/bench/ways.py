"""What undercliff's own work costs: the same 440 KB as a new talk, a sticky one, solved anew, compacted, expanded.

The loads and the settings for `tests.bench.gateways`, which runs each beside the plain pass-through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.bench.hot_path import growing, large_list, talks

CALLS = 100
RESULT_CHARS = 4000
ROOM = 60_000


@dataclass(frozen=True, slots=True)
class Way:
    """One kind of work. `path` goes before `/v1` at the provider and chooses how it answers."""

    name: str
    bodies: Callable[[], Iterator[bytes]]
    path: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def _body(messages: list[dict[str, Any]], **more: object) -> bytes:
    return json.dumps({"model": "gpt-5.4", "messages": messages, **more}).encode()


def compacted() -> Iterator[bytes]:
    """A talk of 440 KB, then its next question; again with another talk."""
    for body in talks():
        yield body
        messages = json.loads(body)["messages"]
        ending = [{"role": "assistant", "content": "ok then"}, {"role": "user", "content": "now the next part"}]
        yield _body([*messages, *ending])


def tool_runs() -> Iterator[bytes]:
    """Two hundred messages of calls and fat results, 440 KB; one question longer with every request."""
    system, *_ = large_list()
    messages: list[dict[str, Any]] = [system, {"role": "user", "content": "read every berth"}]
    for number in range(CALLS):
        call = {"name": "read", "arguments": json.dumps({"berth": number})}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{number}", "type": "function",
                                                                    "function": call}]},
            {"role": "tool", "tool_call_id": f"call_{number}",
             "content": "\n".join(f"berth {number} gauge {line} stands at {line * 37 % 91}" for line in
                                  range(RESULT_CHARS // 32))},
        ]  # fmt: skip
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    number = 0
    while True:
        yield _body(messages, tools=tools)
        number += 1
        messages.append({"role": "assistant", "content": "ok then"})
        messages.append({"role": "user", "content": f"go on with step {number} of the plan"})


EVERY_RESULT = {"economics": False, "mask_at": 1000, "min_batch": 0, "min_share": 0.0}

WAYS = (
    Way("440 KB, new talk", talks),
    Way("440 KB, sticky", growing),
    Way(
        "440 KB, solved anew",
        growing,
        path="/billed",
        settings={"policy.name": "greedy"},
        models={"*": {"window": ROOM, "cliff": ROOM}},
    ),
    Way("440 KB, new talk and its compaction", compacted, path="/billed", settings={"window.compact_at": ROOM}),
    Way("440 KB, masked", tool_runs, settings={"policy.options": EVERY_RESULT, "expand.enabled": False}),
    Way("440 KB, masked and expanded", tool_runs, path="/expand", settings={"policy.options": EVERY_RESULT}),
)
