"""What repeats of live tasks come to: how often each is passed, how sure that is, and what a session cost. Pure.

Repeats of one task say less than as many tasks, and so do tasks of one plot: a rate is the mean over tasks of each
task's own rate, and its interval is Wilson's (1927) for as many trials as there are plots. It also holds where all or
none pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from proxy.core.model import Usage
from proxy.core.pricing import ModelFacts, cost
from proxy.evaluation.results import CallBill, TaskResult
from proxy.evaluation.statistics import plot_of

Z = 1.959964
"""Of a normal distribution, for 95 of 100."""


@dataclass(frozen=True, slots=True)
class Row:
    """One policy at one budget. `in_sight` is the share of failed checks whose needs were all in the window: the
    model's own. Dollars are a session's mean at the model's prices, None without them."""

    policy: str
    budget: str
    tasks: int
    runs: int
    rate: float
    low: float
    high: float
    always: int
    never: int
    checks: float
    in_sight: float | None
    expansions: float
    cost: float | None
    direct_cost: float | None


def base_name(result: TaskResult) -> str:
    """The task without the number of its repeat."""
    return result.task.rpartition("#")[0] or result.task


def summed_up(results: Sequence[TaskResult], facts: ModelFacts) -> list[Row]:
    """A row for every policy and budget, in the order in which they came first."""
    groups: dict[tuple[str, str], list[TaskResult]] = defaultdict(list)
    for result in results:
        groups[result.budget, result.policy].append(result)
    return [_row(group, facts) for group in groups.values()]


def _row(results: Sequence[TaskResult], facts: ModelFacts) -> Row:
    rates = list(task_rates(results).values())
    rate = sum(rates) / len(rates)
    low, high = wilson(rate, len({plot_of(result) for result in results}))
    checks = [check for result in results for check in result.checks]
    failed = [(result, check) for result in results for check in result.checks if not check.passed_expanded]
    seen = [not any(item.check == check.name for item in result.missing) for result, check in failed]
    costs = [(_dollars(result.calls, facts), _dollars(result.direct_calls, facts)) for result in results]
    return Row(
        policy=results[0].policy,
        budget=results[0].budget,
        tasks=len(rates),
        runs=len(results),
        rate=rate,
        low=low,
        high=high,
        always=sum(one == 1 for one in rates),
        never=sum(one == 0 for one in rates),
        checks=sum(check.passed_expanded for check in checks) / len(checks) if checks else 0.0,
        in_sight=sum(seen) / len(seen) if seen else None,
        expansions=sum(result.expansions for result in results) / len(results),
        cost=_mean([ours for ours, _ in costs]),
        direct_cost=_mean([theirs for _, theirs in costs]),
    )


def task_rates(results: Sequence[TaskResult]) -> Mapping[str, float]:
    """How often each task was passed, of its repeats."""
    passed: dict[str, list[bool]] = defaultdict(list)
    for result in results:
        passed[base_name(result)].append(result.passed_expanded)
    return {name: sum(each) / len(each) for name, each in sorted(passed.items())}


def wilson(rate: float, trials: int) -> tuple[float, float]:
    """The interval in which the true rate lies, in 95 of 100."""
    spread = Z * sqrt(rate * (1 - rate) / trials + Z**2 / (4 * trials**2))
    middle, scale = rate + Z**2 / (2 * trials), 1 + Z**2 / trials
    return (middle - spread) / scale if rate else 0.0, (middle + spread) / scale if rate < 1 else 1.0


def text(rows: Sequence[Row]) -> Iterator[str]:
    """The table, in lines."""
    yield (
        f"{'budget':9}{'policy':14}{'tasks':>6}{'runs':>6}{'passed':>9}{'95 %':>12}{'always':>8}{'never':>7}"
        f"{'checks':>8}{'in sight':>10}{'expands':>9}{'$':>9}{'direct $':>10}"
    )
    for row in rows:
        yield (
            f"{row.budget:9}{row.policy[:13]:14}{row.tasks:6}{row.runs:6}{row.rate:9.0%}"
            f"{f'{row.low:.0%}-{row.high:.0%}':>12}{row.always:8}{row.never:7}{row.checks:8.0%}"
            f"{'-' if row.in_sight is None else f'{row.in_sight:.0%}':>10}{row.expansions:9.1f}"
            f"{_money(row.cost):>9}{_money(row.direct_cost):>10}"
        )
    yield "in sight: of the checks that failed, those with all they needed in the window: the model's own mistakes"


def _money(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _dollars(calls: Sequence[CallBill], facts: ModelFacts) -> float | None:
    bills = [cost(Usage(call.input, call.output, call.cached), facts) for call in calls]
    known = [bill for bill in bills if bill is not None]
    return sum(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
