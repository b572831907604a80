"""What results come to: means over tasks, by source, budget, policy and family, and how sure a difference is.

A task counts as much as any other, long or short. Differences are paired: task by task against keep-last-N, with a
bootstrap over the tasks, seeded, so that the same results give the same figures. One plot told with other names, or
played again, is no second plot: its tasks are drawn together, or the intervals would be too narrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from policies.last_n import LastN
from proxy.evaluation.bill import DEFAULT_PRICES, PRICE_MODELS, Share, share
from proxy.evaluation.results import TaskResult

BASELINE = LastN.name
DRAWS = 4000
SEED = 20
CONFIDENCE = 0.95
TOLD_AGAIN = re.compile(r"(-\d+)?(#\d+)?$")
"""The seed and the repeat at the end of a task's name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a task's result, 0 to 1, None where it says nothing of it. Shown in per cent."""

    name: str
    title: str
    of: Callable[[TaskResult], float | None]
    is_cost: bool = False


def _steps(result: TaskResult) -> float | None:
    return _part(result, result.steps_passed, result.steps)


def _steps_expanded(result: TaskResult) -> float | None:
    return _part(result, result.steps_passed_expanded, result.steps)


def _needs(result: TaskResult) -> float | None:
    return _part(result, result.needs_met, result.needs)


def _needs_expanded(result: TaskResult) -> float | None:
    return _part(result, result.needs_met_expanded, result.needs)


def _copies(result: TaskResult) -> float | None:
    return result.copies_met / result.copies if result.copies else None


def _tasks(result: TaskResult) -> float | None:
    return float(result.passed) if _is_decided(result) else None


def _tasks_expanded(result: TaskResult) -> float | None:
    return float(result.passed_expanded) if _is_decided(result) else None


def _bill(result: TaskResult) -> float | None:
    pair = DEFAULT_PRICES.bills(result)
    return pair[0] / pair[1] if pair is not None else None


def _part(result: TaskResult, met: int, of: int) -> float | None:
    """What could not be run to its end has met nothing."""
    if of:
        return met / of
    return 0.0 if result.error else None


def _is_decided(result: TaskResult) -> bool:
    """A run that no budget bound, with nothing to check, says nothing."""
    return bool(result.checks or result.error)


METRICS = (
    Metric("steps", "steps passed", _steps),
    Metric("steps_expanded", "steps passed, with expand", _steps_expanded),
    Metric("tasks", "tasks passed", _tasks),
    Metric("tasks_expanded", "tasks passed, with expand", _tasks_expanded),
    Metric("needs", "needs recalled", _needs),
    Metric("needs_expanded", "needs recalled, with expand", _needs_expanded),
    Metric("copies", "copied lines recalled", _copies),
    Metric("bill", f"bill, {DEFAULT_PRICES.name}", _bill, is_cost=True),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference and what it lies between, in 95 of 100; over how many pairs."""

    value: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Row:
    """One policy at one budget over the tasks of one source, or of one family of it."""

    source: str
    family: str
    """Empty for all of them."""
    policy: str
    budget: str
    tasks: int
    decided: int
    """Of them, those with something to pass: a budget may bind nowhere in a short run."""
    errors: int
    values: dict[str, float | None]
    """By the metric's name: the mean over tasks."""
    differences: dict[str, Interval | None]
    """From the baseline at the same budget; empty for the baseline, without one, and for a family."""
    bills: dict[str, Share | None]
    """By the price model's name."""
    passed: int
    passed_expanded: int
    reuse: float
    breaks: float
    """A task."""
    budget_use: float
    over_budget: int
    invalid_windows: int
    expansions: float
    """A step."""


@dataclass(frozen=True, slots=True)
class Summary:
    """All rows, in the order of sources, budgets and policies as they came first."""

    rows: tuple[Row, ...]
    families: tuple[Row, ...]
    baseline: str


def summarize(results: Sequence[TaskResult], *, baseline: str = BASELINE, draws: int = DRAWS) -> Summary:
    """Rows for everything that was run."""
    rows, families = [], []
    for source in _unique(result.source for result in results):
        ours = [result for result in results if result.source == source]
        names = sorted({result.family for result in ours})
        for budget in _unique(result.budget for result in ours):
            at = [result for result in ours if result.budget == budget]
            base = [result for result in at if result.policy == baseline]
            for policy in _unique(result.policy for result in at):
                mine = [result for result in at if result.policy == policy]
                rows.append(_row(mine, "", base if policy != baseline else [], draws))
                families += [_row([r for r in mine if r.family == name], name, [], draws) for name in names]
    return Summary(tuple(rows), tuple(row for row in families if row.tasks), baseline)


def _row(results: Sequence[TaskResult], family: str, base: Sequence[TaskResult], draws: int) -> Row:
    ended = [result for result in results if result.calls]
    steps = sum(result.steps for result in results)
    first = results[0] if results else TaskResult("", "", "", "", "", 0)
    return Row(
        source=first.source,
        family=family,
        policy=first.policy,
        budget=first.budget,
        tasks=len(results),
        decided=sum(_is_decided(result) for result in results),
        errors=sum(bool(result.error) for result in results),
        values={metric.name: _mean([metric.of(result) for result in results]) for metric in METRICS},
        differences={metric.name: difference(results, base, metric, draws) for metric in METRICS} if base else {},
        bills={prices.name: share(results, prices) for prices in PRICE_MODELS},
        passed=sum(result.passed and _is_decided(result) for result in results),
        passed_expanded=sum(result.passed_expanded and _is_decided(result) for result in results),
        reuse=_mean([result.reuse for result in ended]) or 0.0,
        breaks=_mean([float(result.breaks) for result in ended]) or 0.0,
        budget_use=_mean([result.budget_use for result in ended]) or 0.0,
        over_budget=sum(result.over_budget for result in results),
        invalid_windows=sum(result.invalid_windows for result in results),
        expansions=sum(result.expansions for result in results) / steps if steps else 0.0,
    )


def difference(
    results: Iterable[TaskResult], base: Iterable[TaskResult], metric: Metric, draws: int = DRAWS
) -> Interval | None:
    """The mean over tasks of ours less theirs; None where no task has both."""
    theirs = {result.task: metric.of(result) for result in base}
    plots: dict[str, list[float]] = {}
    for result in sorted(results, key=lambda result: result.task):
        ours, their = metric.of(result), theirs.get(result.task)
        if ours is not None and their is not None:
            plots.setdefault(plot_of(result), []).append(ours - their)
    if not plots:
        return None
    gaps = [gap for plot in plots.values() for gap in plot]
    low, high = bootstrap(list(plots.values()), draws)
    return Interval(sum(gaps) / len(gaps), low, high, len(gaps))


def plot_of(result: TaskResult) -> str:
    """What tasks of one plot have in common. A recorded run has only itself."""
    return result.task if result.source == "recorded" else TOLD_AGAIN.sub("", result.task)


def bootstrap(plots: Sequence[Sequence[float]], draws: int = DRAWS) -> tuple[float, float]:
    """Percentiles of the mean over as many plots drawn with replacement, each with all its values. Deterministic."""
    sums, sizes = [sum(plot) for plot in plots], [len(plot) for plot in plots]
    means = sorted(
        sum(map(sums.__getitem__, drawn)) / sum(map(sizes.__getitem__, drawn)) for drawn in _draws(len(plots), draws)
    )
    edge = round((1 - CONFIDENCE) / 2 * draws)
    return means[edge], means[draws - 1 - edge]


@cache
def _draws(size: int, draws: int) -> tuple[tuple[int, ...], ...]:
    random = Random(SEED)
    return tuple(tuple(random.choices(range(size), k=size)) for _ in range(draws))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
