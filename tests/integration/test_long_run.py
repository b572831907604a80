"""Many rounds of compaction on one run: the window stays bounded, and every word of the run can be had again."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from policies.sticky import Sticky, StickyOptions
from proxy.store.open import open_store
from proxy.turn import Turn
from tests.support import builders
from tests.support.replaying import replay, steps_of

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "traces"
FACTS = {
    "port": "the gauge server listens on port 47113",
    "customer": "the customer's code is QX-2271",
    "date": "release is due on 2031-04-05",
    "table": "rows go to the table tide_ledger_v2",
}


def own_run() -> list[Any]:
    """A run of our own making: one question, three hundred steps."""
    messages = [builders.system(), builders.user("Check every berth. Never touch db/migrations.")]
    for number in range(300):
        messages += builders.step(number, builders.long_text(number, 3000 if number % 3 else 400))
        if number % 40 == 39:
            messages += [builders.assistant(f"Part {number} is done."), builders.user(f"Go on with {number + 1}.")]
    return messages


def longest_run() -> list[Any]:
    """The longest recorded run, which is not part of this repository."""
    if not TRACES.exists():
        pytest.skip("no recorded runs here")
    path = max(TRACES.glob("*.jsonl"), key=lambda found: found.stat().st_size)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def plant(messages: list[Any]) -> list[Any]:
    """The facts, in four early tool results."""
    results = [message for message in messages if message["role"] == "tool"][1:9:2]
    for message, fact in zip(results, FACTS.values(), strict=True):
        message["content"] = f"{message['content']}\nNote: {fact}."
    return messages


@pytest.mark.parametrize(
    ("run", "window", "economics"),
    [
        (own_run, 8_000, False),
        (own_run, 8_000, True),
        pytest.param(longest_run, 32_000, False, marks=pytest.mark.slow),
    ],
)
async def test_twelve_rounds_on_one_run(run: Any, window: int, economics: bool, tmp_path: Path) -> None:
    messages = plant(run())
    store = open_store(tmp_path / "x.db")
    await store.open()
    policy = Sticky(StickyOptions(economics=economics))
    made = replay(tmp_path, store, policy=policy, models={"*": {"window": window}})
    originals: list[bytes] = []
    digests: dict[str, str] = {}
    largest = 0
    turn: Turn | None = None
    for new, reply in steps_of(messages):
        made.add(*new)
        turn = await made.call(reply)
        fold = turn.decision.plan.fold
        if fold is not None:
            digests.setdefault(fold.item, fold.text)
        if turn.live.state.calls > 1:
            largest = max(largest, turn.limits.billed(turn.estimate))
    originals = made.pieces
    assert turn is not None
    name = turn.placement.conversation
    folds = await store.folds(name)
    rounds = [fold for fold in folds if fold.branch == turn.placement.branch]
    print(
        f"{run.__name__}: {made.count} calls, {len(rounds)} rounds, {sum(map(len, originals)):,} bytes raw, "
        f"largest window {largest:,} of {window:,}, digests {min(map(len, digests.values()), default=0):,} to "
        f"{max(map(len, digests.values()), default=0):,} chars"
    )
    assert len(rounds) >= 12
    assert largest <= window
    # Every original comes back byte for byte: as the client sent it, and by its id.
    for raw in originals[:-1]:  # the last reply has not come back from the client yet
        assert await store.body(blake2b(raw, digest_size=16).digest()) == raw
    stored = [item async for item in await store.transcript(name)]
    results = {raw for raw in originals if b'"role":"assistant"' not in raw[:30]}
    assert results <= {item.data for item in stored}
    assert {item.row.id for item in stored} >= set(turn.measured.ids)
    # What left the window is listed by the summary that stands for it.
    fold = turn.live.plan.fold
    assert fold is not None and fold.item == rounds[-1].summary
    covered = await store.coverage(name, fold.item)
    assert covered == fold.covers
    shown = turn.rendered.body.decode()
    rows = {row.row.id: row.row.text for row in await store.items(name, turn.measured.ids)}
    hidden = "\n".join(rows[item] for item in {*covered, *turn.decision.plan.masks})
    for fact in FACTS.values():
        assert fact in shown or fact in hidden
    # No round is made from an earlier one, and none grows without bound.
    assert all(text.count("made by the proxy") == 1 for text in digests.values())
    sizes = [len(text) for text in digests.values()]
    assert max(sizes) <= 1.2 * max(sizes[: max(1, len(sizes) // 3)])
    await store.aclose()
