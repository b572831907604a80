"""When a window must become smaller: between turns by the bill, inside one by what is expected, never again in vain."""

from __future__ import annotations

from pathlib import Path

from proxy.core.overflow import Overflow
from proxy.pressing import COLD_S, REGROWTH, expected, is_cold, output_room, pressure_on, towards
from proxy.turn import Turn, whole
from tests.support import builders
from tests.support.turns import Bench, bench

START = [builders.system(), builders.user("read"), *builders.steps(3, 3000)]
NEXT = [*START, builders.assistant("noted"), builders.user("so?")]


async def second(tmp_path: Path, bill: int, **extra: int) -> tuple[Bench, Turn]:
    made = bench(tmp_path, window=100_000)
    made.end(await made.begin(START), bill=bill)
    return made, await made.begin(NEXT, **extra)


async def test_between_turns_the_bill_calls_for_it(tmp_path: Path) -> None:
    _, turn = await second(tmp_path, 3000)
    calm, marks = whole(turn.measured), turn.limits.thresholds
    assert pressure_on(turn, calm, 3000) is None
    turn.live.state.input = int(marks.compact_at) + 1
    pressure = pressure_on(turn, calm, int(marks.compact_at) + 1)
    assert pressure is not None and (pressure.kind, pressure.figure) == ("threshold", turn.live.state.input)
    assert pressure.target == max(0, turn.limits.counted(marks.target) - turn.tools_tokens)
    assert pressure_on(turn, calm, 3000) is None, "what is expected now is small: the bill was of a larger list"


async def test_inside_a_turn_the_guard_does(tmp_path: Path) -> None:
    _, turn = await second(tmp_path, 3000)
    guard = int(turn.limits.thresholds.guard)
    pressure = pressure_on(turn, whole(turn.measured), guard)
    assert pressure is not None and pressure.kind == "guard"


async def test_not_again_in_vain_before_real_growth(tmp_path: Path) -> None:
    _, turn = await second(tmp_path, 3000)
    calm, guard = whole(turn.measured), int(turn.limits.thresholds.guard)
    turn.live.state.futile_at = int(calm.tokens / REGROWTH) + 2
    assert pressure_on(turn, calm, guard) is None
    turn.live.state.futile_at = int(calm.tokens / REGROWTH) - 2
    assert pressure_on(turn, calm, guard) is not None


async def test_what_is_expected_is_the_last_bill_and_what_is_new(tmp_path: Path) -> None:
    _, turn = await second(tmp_path, 7000)
    new = turn.limits.billed(turn.measured.new_tokens(turn.live.seen))
    assert expected(turn, whole(turn.measured)) == turn.live.state.input + new and new > 0


async def test_a_cache_goes_cold_after_an_hour(tmp_path: Path) -> None:
    _, turn = await second(tmp_path, 3000)
    assert not is_cold(turn)
    turn.live.state.at -= COLD_S + 1
    assert is_cold(turn)


async def test_a_target_leaves_room_for_the_tools(tmp_path: Path) -> None:
    _, turn = await second(tmp_path, 3000)
    assert turn.tools_tokens > 0
    assert towards(turn, "guard", 0, 5).target == 0
    assert towards(turn, "guard", 50_000, 5).target == turn.limits.counted(50_000) - turn.tools_tokens


async def test_a_smaller_output_is_asked_for_where_that_is_enough(tmp_path: Path) -> None:
    _, turn = await second(tmp_path, 3000, max_tokens=50_000)
    assert output_room(turn, Overflow(cause="output", limit=60_000, input=20_000)) == 60_000 - 20_000 - 16
    assert output_room(turn, Overflow(cause="output", limit=20_100, input=20_000)) == 0
    assert output_room(turn, Overflow(cause="output", limit=90_000, input=20_000)) == 0
