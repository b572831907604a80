"""A turn's rows: only what is new, unless something was lost; then all of it."""

from __future__ import annotations

from pathlib import Path

from proxy.core.records import Batch
from proxy.fold_rows import accept
from proxy.turn_rows import lost_rows
from tests.support import builders
from tests.support.turns import bench

START = [builders.system(), builders.user("read the gauges"), *builders.steps(3, 3000)]
LATER = [*START, builders.assistant("noted"), builders.user("so?")]


async def test_a_request_writes_what_is_new_and_links_results_to_calls(tmp_path: Path) -> None:
    made = bench(tmp_path)
    first = await made.begin(START)
    rows, window, _ = made.record(first)
    assert len(rows.items) == len(START) and rows.items[0].is_pinned
    assert [link.type for link in rows.links] == ["replies_to"] * 3
    assert window.base == "" and len(window.tail) == len(START)
    made.end(await made.begin(START), bill=3000)
    later, window, batch = made.record(await made.begin(LATER))
    assert len(later.items) == 1 and later.paths[0].base and window.base
    assert len(batch.plans) == 1  # the masks are a new plan


async def test_a_lost_batch_makes_the_next_rows_whole(tmp_path: Path) -> None:
    made = bench(tmp_path)
    made.end(await made.begin(START), bill=3000)
    made.end(await made.begin(LATER), bill=1000)
    more = [*LATER, builders.assistant("noted"), builders.user("and?")]
    turn = await made.begin(more)
    turn.live.lose(Batch())
    rows, window, batch = made.record(turn)
    assert not turn.live.is_lost
    assert len(rows.items) == len(more) and rows.paths[0].base == "" and len(rows.paths[0].tail) == len(more)
    assert rows.plans and len(rows.keys) > 3
    assert window.base == "" and len(window.tail) == len(more)
    stored = {body.hash for body in (*rows.bodies, *batch.bodies)}
    assert {entry.body for entry in window.tail} <= stored
    turn.live.lose(Batch())
    again, everything = lost_rows(turn, window)
    assert again.base == "" and len(everything.items) == len(more)


async def test_a_lost_fold_is_carried_out_again(tmp_path: Path) -> None:
    made = bench(tmp_path, window=2000)
    talk = list(START[:2])
    batch = Batch()
    for number in range(8):
        turn = await made.begin(talk)
        batch = made.end(turn, bill=turn.estimate)
        if batch.folds:
            break
        talk += [builders.assistant("noted"), builders.user(builders.long_text(number, 900))]
    assert batch.folds and batch.summaries
    turn.live.lose(batch)
    talk += [builders.assistant("noted"), builders.user("so?")]
    turn = await made.begin(talk)
    rows, window, _ = made.record(turn)
    assert accept(turn, window).folds and not turn.live.is_fold_lost
    assert rows.items
