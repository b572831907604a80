"""Results go to JSON and come back."""

from __future__ import annotations

import json

import pytest

from proxy.evaluation.results import CallBill, Check, MissingItem, TaskResult, from_json, to_json

RESULT = TaskResult(
    "ops-1", "ops", "scripted", "sticky", "half", 9000,
    checks=(Check("1. act", True, True), Check("2. say", False, True, why="out of sight")),
    missing=(MissingItem("2. say", "clock = 09:41", "abcdefghijkl", "tool", 900, "stub", 4000, 0.5, "old", True),),
    needs=2, needs_met=1, needs_met_expanded=2, passed_expanded=True, calls=(CallBill(900, 512, 20, True),),
)  # fmt: skip


def test_there_and_back() -> None:
    assert from_json(json.loads(json.dumps(to_json(RESULT)))) == RESULT


def test_what_is_counted() -> None:
    assert (RESULT.steps, RESULT.steps_passed, RESULT.steps_passed_expanded) == (2, 1, 2)
    assert RESULT.key == ("ops-1", "sticky", "half")


def test_what_is_no_result() -> None:
    with pytest.raises((KeyError, TypeError)):
        from_json({"task": "x"})
