"""What a reply's end means for its branch: usage, items, the window that stands, and what must not move."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.settle import End, outcome_only
from tests.support import builders
from tests.support.turns import bench

START = [builders.system(), builders.user("read the gauges"), *builders.steps(2, 1500)]


async def test_a_good_reply_moves_the_branch_on(tmp_path: Path) -> None:
    made = bench(tmp_path)
    turn = await made.begin(START)
    batch = made.end(turn, "noted", bill=4321)
    (outcome,) = batch.outcomes
    assert (outcome.outcome, outcome.input, outcome.is_estimated) == ("ok", 4321, False)
    assert len(batch.replies) == 1 == len(outcome.reply_items) and batch.keys
    state = turn.live.state
    assert (state.input, state.calls, state.outcome) == (4321, 1, "ok")
    assert turn.live.served.id == turn.window and len(turn.live.path.items) == len(START) + 1
    assert batch.learned


@pytest.mark.parametrize("outcome", ["error", "cancelled", "interrupted"])
async def test_a_bad_end_counts_as_not_seen(tmp_path: Path, outcome: str) -> None:
    made = bench(tmp_path)
    turn = await made.begin(START)
    batch = made.end(turn, outcome=outcome)
    assert batch.outcomes[0].outcome == outcome and not batch.replies
    assert (turn.live.state.calls, turn.live.served.id, turn.live.seen) == (0, "", set())


async def test_a_missing_bill_is_an_estimate_and_says_so(tmp_path: Path) -> None:
    made = bench(tmp_path)
    turn = await made.begin(START)
    (outcome,) = made.end(turn).outcomes
    assert outcome.is_estimated and outcome.input == turn.limits.billed(turn.estimate) > 0


def test_a_request_of_no_branch_has_an_outcome_all_the_same() -> None:
    (row,) = outcome_only("x1", End("error", 502, "gone"), None).outcomes
    assert (row.exchange, row.status, row.error, row.input) == ("x1", 502, "gone", 0)
