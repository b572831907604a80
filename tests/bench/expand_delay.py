"""What the tool costs a stream: delay of text chunks with and without it offered, in one run over real sockets.

python -m tests.bench.expand_delay [chunks]
"""

from __future__ import annotations

import statistics
import sys
import time
from itertools import pairwise
from typing import Any

import httpx

from tests.support import builders, replies
from tests.support.expanding import BATCHED, Talk
from tests.support.serve import served
from tests.support.session import strict
from tests.support.upstream import Action, Pause, Request, ScriptedUpstream

PAUSE_S = 0.004


def timed(count: int) -> Action:
    """Chunks that carry the moment at which they were sent."""

    def parts() -> Any:
        yield replies.event(replies.chunk({"role": "assistant", "content": ""}))
        for _ in range(count):
            yield Pause(PAUSE_S)
            yield replies.event(replies.chunk({"content": "MOMENT"}))
        yield replies.event(replies.chunk({}, finish="stop"))
        yield replies.DONE

    return replies.stream_reply(list(parts()))


def delays(proxy_url: str, body: bytes, up: ScriptedUpstream, count: int) -> list[float]:
    """Seconds between neighbouring text chunks at the client, less the pause between them at the provider."""
    up.enqueue(timed(count))
    arrived: list[float] = []
    headers = {"authorization": "Bearer sk-one", "content-type": "application/json"}
    with httpx.stream("POST", f"{proxy_url}/chat/completions", content=body, headers=headers, timeout=60) as response:
        for part in response.iter_bytes():
            arrived += [time.perf_counter()] * part.count(b"MOMENT")
    return [later - earlier - PAUSE_S for earlier, later in pairwise(arrived)]


def measure(count: int = 400, rounds: int = 3) -> dict[str, float]:
    """Medians over alternating rounds, in milliseconds, and their ratio."""
    found: dict[str, list[float]] = {"with": [], "without": []}

    def handler(request: Request) -> Action:
        return strict(request)

    with (
        ScriptedUpstream(handler) as up,
        served(up.base_url, policy__options=BATCHED) as offering,
        served(up.base_url, policy__options=BATCHED, expand__enabled=False) as plain,
    ):
        talks = {"with": Talk(offering, up, stream=True), "without": Talk(plain, up, stream=True)}
        for talk in talks.values():
            talk.messages.append(builders.user("tell me"))
        for _ in range(rounds):
            for name, talk in talks.items():
                found[name] += delays(talk.proxy.base_url, talk.body(), up, count)
    medians = {name: statistics.median(values) * 1000 for name, values in found.items()}
    spans = {name: statistics.mean(values) * 1000 + PAUSE_S * 1000 for name, values in found.items()}
    return {
        **medians,
        "ratio": spans["with"] / spans["without"],
        "mean_with": spans["with"],
        "mean_without": spans["without"],
    }


if __name__ == "__main__":
    for key, value in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 400).items():
        print(f"{key:14} {value:8.3f}")
