"""Rates over repeats, their intervals, and whose mistake a failed check was."""

from __future__ import annotations

import pytest

from proxy.core.pricing import ModelFacts, Rates
from proxy.evaluation.live.summary import base_name, summed_up, task_rates, text, wilson
from proxy.evaluation.results import CallBill, Check, MissingItem, TaskResult

FACTS = ModelFacts(window=9_000, rates=Rates(2.0, 0.2, 2.0, 10.0))


def run(task: str, is_passed: bool, *, policy: str = "sticky", is_missing: bool = False) -> TaskResult:
    missing = (MissingItem("1. note", "gauge = 7", "abc", "tool", 90, "absent", 800),) if is_missing else ()
    checks = (Check("1. note", is_passed, is_passed), Check("2. say", True, True))
    bills = {"calls": (CallBill(1_000, 500, 10),), "direct_calls": (CallBill(2_000, 0, 10),)}
    return TaskResult(
        task, "ops", "live", policy, "half", 900, checks, missing, passed=is_passed, passed_expanded=is_passed,
        expansions=2, **bills,
    )  # fmt: skip


RUNS = [run("a#1", True), run("a#2", True), run("b#1", True), run("b#2", False, is_missing=True), run("c#1", False)]


def test_a_task_counts_once_however_often_it_was_played() -> None:
    assert task_rates(RUNS) == {"a": 1.0, "b": 0.5, "c": 0.0} and base_name(run("x", True)) == "x"
    (row,) = summed_up(RUNS, FACTS)
    assert (row.tasks, row.runs, row.rate, row.always, row.never) == (3, 5, 0.5, 1, 1)
    assert row.low < 0.5 < row.high and row.expansions == 2
    assert row.checks == 0.8 and row.in_sight == 0.5
    assert row.cost == pytest.approx((500 * 2 + 500 * 0.2 + 10 * 10) / 1e6)
    assert row.direct_cost == pytest.approx((2_000 * 2 + 10 * 10) / 1e6)


def test_other_names_in_one_plot_make_it_no_surer() -> None:
    told_once = summed_up([run("ops-quota-1#1", True)], FACTS)[0]
    told_again = summed_up([run(f"ops-quota-{seed}#{turn}", True) for seed in (1, 2) for turn in (1, 2)], FACTS)[0]
    other = summed_up([run("ops-quota-1#1", True), run("ops-lease-1#1", True)], FACTS)[0]
    assert told_again.low == told_once.low < other.low < 1 == other.high and told_again.tasks == 2


def test_wilson_against_published_values() -> None:
    # Newcombe, "Two-sided confidence intervals for the single proportion", 1998: his four examples, method 3.
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(15 / 148, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert wilson(0.0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(1 / 29, 29) == pytest.approx((0.0061, 0.1718), abs=1e-4)
    assert wilson(1.0, 10)[1] == 1.0


def test_the_table() -> None:
    rows = summed_up([*RUNS, run("a#1", True, policy="last_n")], ModelFacts(window=1))
    head, sticky, last_n, foot = text(rows)
    assert "sticky" in sticky and "50%" in sticky and "last_n" in last_n and "100%" in last_n
    assert sticky.endswith("-") and len(head) == len(sticky) and "in sight" in foot
