"""No list of ours is ever refused: random valid histories, reduced at random points, before the strictest provider.

A few hundred here; `UNDERCLIFF_HISTORIES=10000` runs as many as it says.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from proxy.core.model import Reply
from proxy.live import LiveBranches
from proxy.settle import End, settle
from proxy.store.null import NullStore
from proxy.turn import Turns
from proxy.windows import WindowBuilder, WindowOptions
from proxy.wire.responses import ResponsesFormat
from tests.support.histories import Histories, Reckless
from tests.support.strict_responses import responses_fault
from tests.support.turns import TENANT, Bench, bench

COUNT = int(os.environ.get("UNDERCLIFF_HISTORIES", "200"))


async def run(seed: int, parts: Bench, seen: Counter[str]) -> None:
    """One session: every request's outgoing list is shown to the provider."""
    chooser = random.Random(seed)
    is_adjacent = chooser.random() < 0.5
    live = LiveBranches(NullStore())
    builder = WindowBuilder(Reckless(chooser), parts.tokenizer, WindowOptions())
    made = Bench(Turns(live, builder, parts.models, parts.tokenizer), live, parts.models, parts.tokenizer, builder)
    fmt = ResponsesFormat()
    histories = Histories(chooser, is_adjacent=is_adjacent)
    items: list[dict[str, object]] = []
    for number, (added, reply) in enumerate(histories.exchanges(chooser.randint(2, 6))):
        items += added
        assert responses_fault(items, histories.made, is_adjacent=is_adjacent) is None, "the history itself is bad"
        body = json.dumps({"model": "m", "store": False, "input": items}).encode()
        conversation = fmt.decode(body, {})
        turn = await made.turns.begin(fmt, conversation, TENANT, f"x{number}")
        out = json.loads(turn.rendered.body)["input"]
        fault = responses_fault(out, histories.made, is_adjacent=is_adjacent)
        assert fault is None, f"seed {seed}, call {number}: {fault}"
        known = {json.dumps(item, sort_keys=True) for item in items}
        changed = [item for item in out if json.dumps(item, sort_keys=True) not in known]
        assert all(item.get("type") != "reasoning" for item in changed)
        seen["lists"] += 1
        seen["masked"] += any("omitted from history" in json.dumps(item) for item in changed)
        seen["folded"] += any(entry.form == 1 for entry in turn.rendered.entries)
        seen["shorter"] += len(out) < len(items)
        elements = tuple(fmt.read_element(json.dumps(item).encode()) for item in reply)
        window = made.record(turn)[1]
        said = Reply(elements, finish="stop", is_complete=True)
        settle(turn, End("ok", 200), said, window, TENANT, made.live, made.models)
        items += reply


def test_no_list_is_refused(tmp_path: Path) -> None:
    parts = bench(tmp_path, window=100_000)
    seen: Counter[str] = Counter()

    @settings(
        max_examples=COUNT, deadline=None, database=None, derandomize=COUNT <= 1000, phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    @given(seed=st.integers(0, 2**62))
    def one(seed: int) -> None:
        asyncio.run(run(seed, parts, seen))

    one()
    print(dict(seen))
    # The test must have met what it is about.
    assert seen["masked"] > COUNT and seen["folded"] > COUNT // 2 and seen["shorter"] > COUNT // 2
