"""The brief asks for the right calls and gives no value away."""

from __future__ import annotations

import pytest

from proxy.evaluation.live.briefing import CALLS, FORM, OPEN, brief, briefed, parts
from proxy.evaluation.scripted.spec import Story, tell, trades

STORIES = [tell(plot, trade, 3) for trade in trades() for plot in trade["plot"]]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_no_brief_says_a_value_that_is_asked_for(story: Story) -> None:
    for part in parts(story):
        text = brief(part.checked, story)
        assert all(need.value not in text for move in part.checked for need in move.needs)
        assert text.count(OPEN) > 1 or not part.checked
        for move in part.checked:
            assert all(call.tool in text for call in move.calls)
            assert move.otherwise is None or f"{move.otherwise.tool}(" in text


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_parts_have_every_move_once_and_only_what_is_said_changes(story: Story) -> None:
    found = parts(story)
    assert tuple(move for part in found for move in (*part.said, *part.moves)) == story.moves
    assert all(part.played + part.checked == part.moves for part in found)
    told = briefed(story)
    for before, after in zip(story.moves, told.moves, strict=True):
        assert after.said.startswith(before.said) and (after == before or after.said != before.said)
    asked = [part for part in parts(told) if part.checked]
    assert asked and all(CALLS in part.said[-1].said or FORM in part.said[-1].said for part in asked)


def test_of_two_calls_the_right_one_does_not_always_stand_first() -> None:
    first = set()
    for seed in range(1, 20):
        trade = trades()[4]
        story = tell(trade["plot"][0], trade, seed)
        for part in parts(story):
            for move in part.checked:
                if move.otherwise is not None:
                    text = brief([move], story)
                    first.add(text.index(move.calls[0].tool) < text.index(f"{move.otherwise.tool}("))
    assert first == {True, False}
