"""One request placed, decided and rendered; and the second attempts that an answer may call for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from policies.contract import ContractError
from policies.model import Choice, Form, Selection, Situation
from proxy.core.overflow import Overflow
from tests.support import builders
from tests.support.session import FOLDED, OMITTED
from tests.support.turns import bench

START = [builders.system(), builders.user("read the gauges"), *builders.steps(3, 3000)]
READ = "The gauges of the northern basin stand at four metres and twelve, and the southern ones somewhat lower."
LATER = [*START, builders.assistant("noted"), builders.user("so?")]


class SplitsAGroup:
    """Folds the results but not their calls."""

    name = "splits"

    def select(self, situation: Situation) -> Selection:
        forms = [Form.FOLDED if c.kind == "tool_result" else Form.FULL for c in situation.candidates]
        return Selection(tuple(Choice(c.id, f, "") for c, f in zip(situation.candidates, forms, strict=True)))


class Asks:
    """Leaves all as it is, and keeps what it was asked."""

    name = "asks"

    def __init__(self) -> None:
        self.asked: list[Situation] = []

    def select(self, situation: Situation) -> Selection:
        self.asked.append(situation)
        return Selection(tuple(Choice(c.id, Form.FULL, "") for c in situation.candidates))


async def test_a_list_that_grows_is_in_the_cache_as_far_as_it_was_sent(tmp_path: Path) -> None:
    policy = Asks()
    made = bench(tmp_path, policy, window=100_000)
    made.end(await made.begin(START), bill=3000)
    made.end(await made.begin(LATER), bill=3000)
    assert [(s.is_cold, s.free_from) for s in policy.asked] == [(False, None)] * 2


async def test_another_model_or_a_pause_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    policy = Asks()
    made = bench(tmp_path, policy, window=100_000)
    turn = await made.begin(START)
    made.end(turn, bill=3000)
    made.end(await made.begin(LATER, model="other-1"), bill=3000)
    assert policy.asked[-1].is_cold and policy.asked[-1].cached_end == 0
    made.end(await made.begin([*LATER, builders.assistant("noted"), builders.user("and?")], model="other-1"), bill=3000)
    assert not policy.asked[-1].is_cold
    turn.live.state.at -= 2 * 3600
    await made.begin([*LATER, *[builders.assistant("noted"), builders.user("and?")] * 2], model="other-1")
    assert policy.asked[-1].is_cold


async def test_behind_what_the_client_took_out_nothing_is_in_the_cache(tmp_path: Path) -> None:
    made = bench(tmp_path, Asks(), window=100_000)
    made.end(await made.begin(START), READ, bill=9000)
    turn = await made.begin([*START, builders.assistant(READ), builders.user("so?")])
    assert turn.free_from is None
    ids = turn.measured.ids
    turn.measured = replace(turn.measured, ids=(*ids[:4], *ids[6:]))
    assert turn.free_from == 4


class StubsLate(Asks):
    """Makes the first result a stub at its `when`th question."""

    def __init__(self, when: int) -> None:
        super().__init__()
        self.when = when

    def select(self, situation: Situation) -> Selection:
        whole = super().select(situation)
        if len(self.asked) < self.when:
            return whole
        choices = [*whole.choices]
        choices[3] = Choice(choices[3].id, Form.STUB, "")
        return Selection(tuple(choices), "stubbed")


@pytest.mark.parametrize(("when", "breaks"), [(2, 0), (3, 1)], ids=["sent once", "read from the cache"])
async def test_only_what_was_read_from_the_cache_makes_a_break(tmp_path: Path, when: int, breaks: int) -> None:
    made = bench(tmp_path, StubsLate(when), window=100_000)
    said: list[builders.Message] = []
    for number in range(when):
        (row,) = made.end(await made.begin([*START, *said]), f"{READ} {number}", bill=3000).outcomes
        said += [builders.assistant(f"{READ} {number}"), builders.user(f"and then {number}?")]
    assert row.breaks == breaks


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
