"""A fold in the store: recorded once, by its parts, on the branch's own state; a late one changes nothing."""

from __future__ import annotations

from pathlib import Path

from proxy.core.records import Batch
from proxy.fold_rows import accept
from tests.support import builders
from tests.support.turns import Bench, bench


async def grown(made: Bench, talk: list[builders.Message], turns: int) -> list[Batch]:
    """So many turns more; the batches that carried a fold."""
    found = []
    for number in range(len(talk), len(talk) + turns):
        turn = await made.begin(talk)
        batch = made.end(turn, bill=turn.estimate)
        found += [batch] if batch.folds else []
        talk += [builders.assistant("noted"), builders.user(builders.long_text(number, 900))]
    return found


async def test_a_fold_is_recorded_once_and_follows_the_one_before(tmp_path: Path) -> None:
    made = bench(tmp_path, window=2000)
    batches = await grown(made, [builders.system(), builders.user("start")], 40)
    folds = [batch.folds[0] for batch in batches]
    assert len(folds) > 3
    assert [fold.follows for fold in folds] == ["", *(fold.summary for fold in folds[:-1])]
    assert all(fold.parts >= 1 and fold.told == 0 for fold in folds)


async def test_parts_are_recorded_once_and_cover_every_folded_item(tmp_path: Path) -> None:
    """What a round writes is what is new: the covers of all rows together grow with the history, not with rounds."""
    made = bench(tmp_path, window=2000)
    batches = await grown(made, [builders.system(), builders.user("start")], 120)
    rows = [row for batch in batches for row in batch.summaries]
    parts = {row.item: row.covers for row in rows if row.key.startswith("part:")}
    live = next(iter(made.live._live.values()))
    fold = live.plan.fold
    assert fold is not None and len(fold.covers) > 150
    own = next(row for row in reversed(rows) if row.item == fold.item)
    named = [id for item in own.covers for id in parts.get(item, (item,))]
    assert tuple(named) == fold.covers
    assert len(own.covers) < len(fold.covers) / 3
    assert sum(len(row.covers) for row in rows if row.key.startswith("part:")) <= len(fold.covers)


async def test_a_late_result_never_overwrites_a_newer_plan(tmp_path: Path) -> None:
    made = bench(tmp_path, window=2000)
    talk = [builders.system(), builders.user("start")]
    for _ in range(20):
        if await grown(made, talk, 1):
            break
    slow = await made.begin(talk)
    _, window, _ = made.record(slow)
    live = slow.live
    live.plan_id, standing = "moved on by another request", live.plan
    assert accept(slow, window) == Batch()
    assert live.plan is standing and live.plan_id == "moved on by another request"
