"""State units: the newest result about each object, and no other, earns a bonus, spread over its items."""

from __future__ import annotations

import json

from policies.history import Histories
from policies.model import Candidate
from policies.scoring import focus
from policies.units import state_bonus
from tests.policies import runs


def session(*files: str) -> list[Candidate]:
    made = list(runs.run(0))
    for call, file in enumerate(files, 1):
        command = f"cat {file}"
        runs.add(made, "assistant", f"bash({json.dumps({'command': command})})", call=call)
        for part in ("first", "second"):
            text = f"{part} part of {file}"
            runs.add(made, "tool_result", text, call=call, tool="bash", source=command, group=made[2].group + 2 * call)
    return made


def test_only_the_newest_result_about_an_object_is_a_unit() -> None:
    made = session("a.py", "b.py", "a.py", "c.py")
    history = Histories().of(made)
    bonus = state_bonus(history, range(len(made)), focus(history))
    assert set(bonus) == {6, 7, 9, 10}  # b.py and the second a.py; c.py is the last exchange
    assert all(value > 0 for value in bonus.values())


def test_a_unit_of_which_a_part_stays_anyway_has_no_bonus() -> None:
    made = session("a.py", "b.py", "c.py")
    history = Histories().of(made)
    assert set(state_bonus(history, [3, 6, 7], focus(history))) == {6, 7}
