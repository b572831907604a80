"""Means over tasks, paired differences and their intervals, apart by source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.evaluation.results import Check, TaskResult
from proxy.evaluation.statistics import METRICS, Row, bootstrap, difference, plot_of, summarize
from tests.proxy.evaluation.fakes import FakeTask, result_of

METRIC = {metric.name: metric for metric in METRICS}


def results(source: str = "recorded") -> list[TaskResult]:
    return [
        result_of(FakeTask(number, "code" if number % 2 else "desk", source), policy, budget)
        for number in range(10)
        for budget in ("half", "quarter")
        for policy in ("sticky", "last_n")
    ]


def row(source: str, policy: str, budget: str, rows: tuple[Row, ...]) -> Row:
    (found,) = [one for one in rows if (one.source, one.policy, one.budget) == (source, policy, budget)]
    return found


def test_sources_are_never_mixed() -> None:
    summary = summarize(results() + results("scripted"))
    assert [(r.source, r.budget, r.policy) for r in summary.rows] == [
        (source, budget, policy)
        for source in ("recorded", "scripted")
        for budget in ("half", "quarter")
        for policy in ("sticky", "last_n")
    ]
    assert all(one.tasks == 10 for one in summary.rows)
    assert {one.family for one in summary.families} == {"code", "desk"}
    assert all(one.tasks == 5 and not one.differences for one in summary.families)


def test_a_difference_is_paired_and_lies_in_its_interval() -> None:
    summary = summarize(results())
    ours = row("recorded", "sticky", "half", summary.rows)
    gap = ours.differences["steps"]
    assert gap is not None and gap.pairs == 10
    theirs = row("recorded", "last_n", "half", summary.rows)
    assert not theirs.differences
    assert gap.value == pytest.approx((ours.values["steps"] or 0) - (theirs.values["steps"] or 0))
    assert gap.low <= gap.value <= gap.high
    assert gap.value == pytest.approx(0.2)


def each(values: list[float]) -> list[list[float]]:
    return [[value] for value in values]


def test_an_interval_is_the_same_every_time_and_narrows_with_more_tasks() -> None:
    few, many = each([0.0, 1.0] * 5), each([0.0, 1.0] * 200)
    assert bootstrap(few) == bootstrap(few)
    (low, high), (lower, higher) = bootstrap(many), bootstrap(few)
    assert lower < low < 0.5 < high < higher
    assert bootstrap([[0.3]]) == (0.3, 0.3)


def test_a_plot_told_again_is_no_second_plot() -> None:
    told = [[0.0] * 3, [1.0] * 3] * 5
    assert bootstrap(told) == bootstrap(each([0.0, 1.0] * 5))
    names = ["ops-quota-1", "ops-quota-2", "ops-quota-2#1", "ops-quota-1#12"]
    ours = [TaskResult(name, "ops", "live", "sticky", "half", 1) for name in names]
    assert {plot_of(result) for result in ours} == {"ops-quota"}
    assert plot_of(replace(ours[0], source="recorded")) == "ops-quota-1"


def test_a_task_counts_as_much_as_another() -> None:
    long = replace(result_of(FakeTask(1), "sticky", "half"), checks=tuple(Check("", False, False) for _ in range(90)))
    short = replace(long, task="other", checks=(Check("", True, True),))
    (one,) = summarize([long, short]).rows
    assert one.values["steps"] == pytest.approx(0.5)


def test_what_did_not_run_passed_nothing_and_what_had_nothing_to_check_says_nothing() -> None:
    broken = TaskResult("broken", "f", "recorded", "sticky", "half", 0, error="boom")
    empty = replace(broken, task="empty", error="", passed=True)
    (one,) = summarize([broken, empty]).rows
    assert (one.tasks, one.decided, one.errors, one.passed) == (2, 1, 1, 0)
    assert one.values["steps"] == one.values["tasks"] == 0
    assert one.values["bill"] is None and one.bills["cached 0.1"] is None
    assert difference([empty], [empty], METRIC["steps"]) is None


def test_nothing_is_nothing() -> None:
    assert summarize([]).rows == ()
