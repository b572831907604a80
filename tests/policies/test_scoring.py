"""The linear score: each feature moves it the way its weight says, and nothing but the prefix counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.history import Histories
from policies.model import Candidate
from policies.scoring import Weights, focus, segment_scores
from tests.policies import runs

A = Weights.make("A")


def scores(items: list[Candidate], index: int, query: str = "", weights: Weights = A) -> list[float]:
    history = Histories().of(items)
    return segment_scores(history, [index], weights, focus(history, query), items)[index]


def session(*results: str) -> list[Candidate]:
    made = list(runs.run(0))
    for call, text in enumerate(results, 1):
        runs.add(made, "assistant", 'bash({"command": "cat a.py"})', call=call)
        runs.add(made, "tool_result", text, call=call, tool="bash", source="cat a.py", group=made[-1].group)
    return made


OLD = "def level_of(gauge):\n    return gauge.level * 1000\n\n}"


def test_a_line_that_comes_again_later_is_worth_little() -> None:
    alone = scores(session(OLD, "other words entirely", "more"), 3)
    again = scores(session(OLD, "    return gauge.level * 1000", "more"), 3)
    assert again[1] < alone[1] / 4


def test_definitions_are_worth_more_and_braces_less() -> None:
    first, second, brace = scores(session(OLD, "x", "y"), 3)
    assert first > second > brace


def test_age_takes_worth_away() -> None:
    young = scores(session(OLD, "x"), 3)
    old = scores(session(OLD, *["y"] * 20), 3)
    assert old[0] < young[0]


def test_a_question_lifts_the_lines_that_answer_it_and_is_never_syntax() -> None:
    items = session("gauge_north = 4\nferry_south = 5", "x", "y")
    plain, asked = scores(items, 3), scores(items, 3, 'ferry_south" OR * NEAR(')
    assert asked[1] > plain[1]
    assert asked[0] == plain[0]


def test_importance_and_staleness_count() -> None:
    items = session(OLD, "x", "y")
    plain = scores(items, 3)
    items[3] = replace(items[3], importance=1.0)
    assert scores(items, 3)[0] > plain[0]
    items[3] = replace(items[3], importance=0.0, is_stale=True)
    assert scores(items, 3)[0] < plain[0]


def test_weights_can_be_replaced_one_by_one() -> None:
    items = session(OLD, "x", "y")
    weights = Weights.make("A", {"def": -5.0})
    assert scores(items, 3, weights=weights)[0] < scores(items, 3)[0]
    with pytest.raises(ValueError, match="no feature 'colour'"):
        Weights.make("A", {"colour": 1.0})
    with pytest.raises(ValueError, match="no weight table"):
        Weights.make("Z")


def test_what_is_kept_between_calls_never_changes_a_score() -> None:
    long = runs.run(14)
    histories = Histories()
    for end in range(6, len(long) + 1, 2):
        history = histories.of(long[:end])
        warm = segment_scores(history, range(end), A, focus(history), long)
        fresh_history = Histories().of(long[:end])
        assert warm == segment_scores(fresh_history, range(end), A, focus(fresh_history), long)
