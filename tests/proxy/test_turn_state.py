"""The figures of a turn: what it is estimated at, what it saves, and whose choice it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support import builders
from tests.support.turns import bench


async def test_a_turn_in_full_saves_nothing_and_costs_its_items_and_tools(tmp_path: Path) -> None:
    turn = await bench(tmp_path).begin([builders.user("hello")])
    assert turn.saved == 0 and turn.own.measured is turn.measured
    assert turn.estimate == turn.measured.tokens + turn.tools_tokens + turn.tool_tokens
    turn.decision = replace(turn.decision, tokens=turn.measured.tokens - 1)
    assert turn.saved == 1 and not turn.is_as_sent
    turn.original = turn.conversation
    assert turn.is_as_sent, "passed on as it came"
