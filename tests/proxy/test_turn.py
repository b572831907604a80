"""One request placed, decided and rendered; and the second attempts that an answer may call for."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.contract import ContractError
from policies.model import Choice, Form, Selection, Situation
from proxy.core.overflow import Overflow
from tests.support import builders
from tests.support.session import FOLDED, OMITTED
from tests.support.turns import bench

START = [builders.system(), builders.user("read the gauges"), *builders.steps(3, 3000)]
LATER = [*START, builders.assistant("noted"), builders.user("so?")]


class SplitsAGroup:
    """Folds the results but not their calls."""

    name = "splits"

    def select(self, situation: Situation) -> Selection:
        forms = [Form.FOLDED if c.kind == "tool_result" else Form.FULL for c in situation.candidates]
        return Selection(tuple(Choice(c.id, f, "") for c, f in zip(situation.candidates, forms, strict=True)))


async def test_the_first_sight_is_in_full_and_the_second_is_not(tmp_path: Path) -> None:
    made = bench(tmp_path)
    first = await made.begin(START)
    assert not first.rendered.is_rewritten and first.saved == 0 and first.window == "x1-1"
    made.end(first, bill=3000)
    second = await made.begin(LATER)
    assert second.rendered.body.count(OMITTED) == 3 and second.saved > 0
    assert second.estimate < second.measured.tokens + second.tools_tokens


async def test_a_policy_that_breaks_a_rule_raises_and_leaves_the_branch(tmp_path: Path) -> None:
    made = bench(tmp_path, SplitsAGroup())
    with pytest.raises(ContractError):
        await made.begin(START)


async def test_an_overflow_shrinks_once_what_was_answered(tmp_path: Path) -> None:
    made = bench(tmp_path, window=100_000)
    turn = await made.begin(LATER)
    assert await made.turns.shrink(turn, Overflow(limit=1500, requested=4000))
    assert turn.attempt == 2 and turn.window == "x1-2" and turn.rendered.is_rewritten
    assert turn.rendered.body.count(OMITTED) + turn.rendered.body.count(FOLDED) >= 1


async def test_an_output_allowance_is_lowered_first(tmp_path: Path) -> None:
    made = bench(tmp_path)
    turn = await made.begin(LATER, max_tokens=4000)
    whole = turn.decision
    assert await made.turns.shrink(turn, Overflow(limit=6000, requested=7000, input=3000, cause="output"))
    assert turn.decision is whole and b'"max_tokens":2984' in turn.rendered.body


async def test_as_it_came_and_without_usage(tmp_path: Path) -> None:
    made = bench(tmp_path)
    made.end(await made.begin(START), bill=3000)
    turn = await made.begin(LATER, stream=True)
    assert b"include_usage" in turn.rendered.body and OMITTED in turn.rendered.body
    made.turns.without_usage(turn)
    assert b"include_usage" not in turn.rendered.body and OMITTED in turn.rendered.body
    made.turns.as_it_came(turn)
    assert OMITTED not in turn.rendered.body and not turn.is_managed
