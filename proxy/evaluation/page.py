"""The evaluation as one HTML file that loads nothing: totals, charts, and every failed run with what it missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from proxy.evaluation import charts
from proxy.evaluation.bill import PRICE_MODELS
from proxy.evaluation.charts import Series
from proxy.evaluation.report import COMPARED, failed, percent, shares, signed
from proxy.evaluation.results import TaskResult
from proxy.evaluation.statistics import METRICS, Row, Summary

MOST_MISSING = 40
"""Of one run, in its table."""
CURVES = ("steps", "steps_expanded", "tasks_expanded", "needs_expanded")
SHORT = {"no cache price": "no cache", "0.1, writes 1.25": "writes 1.25", "0.1, cliff at half": "cliff"}


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing and what it shows."""

    title: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Part:
    """What one source of tasks came to."""

    source: str
    tasks: int
    rows: tuple[Row, ...]
    families: tuple[Row, ...]
    curves: tuple[Chart, ...]
    differences: tuple[Chart, ...]
    bills: tuple[Chart, ...]


def page(summary: Summary, results: Sequence[TaskResult]) -> str:
    """The whole file. The same results give the same text."""
    policies = list(dict.fromkeys(row.policy for row in summary.rows))
    sources = dict.fromkeys(row.source for row in summary.rows)
    environment = Environment(
        loader=PackageLoader("proxy.evaluation"), autoescape=select_autoescape(default=True), trim_blocks=True,
        lstrip_blocks=True, undefined=StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"percent": percent, "signed": signed, "shares": shares}
    return environment.get_template("evaluation.html").render(
        parts=[_part(source, summary, policies) for source in sources],
        policies=policies,
        baseline=summary.baseline,
        metrics=METRICS,
        compared=COMPARED,
        price_models=PRICE_MODELS,
        failed=failed(results),
        runs=len(results),
        most_missing=MOST_MISSING,
        colours=charts.COLOURS,
    )


def _part(source: str, summary: Summary, policies: Sequence[str]) -> Part:
    rows = tuple(row for row in summary.rows if row.source == source)
    budgets = list(dict.fromkeys(row.budget for row in rows))
    titles = {metric.name: metric.title for metric in METRICS}
    return Part(
        source=source,
        tasks=max(row.tasks for row in rows),
        rows=rows,
        families=tuple(row for row in summary.families if row.source == source),
        curves=tuple(_curve(titles[name], name, budgets, rows, policies) for name in CURVES),
        differences=tuple(
            chart
            for name in ("steps", "tasks_expanded", "bill")
            if (chart := _differences(titles[name], name, rows, policies, summary.baseline)) is not None
        ),
        bills=tuple(_bill(budget, [row for row in rows if row.budget == budget], policies) for budget in budgets),
    )


def _curve(title: str, name: str, budgets: Sequence[str], rows: Sequence[Row], policies: Sequence[str]) -> Chart:
    found = {(row.policy, row.budget): row.values[name] for row in rows}
    series = [
        Series(policy, tuple(found.get((policy, budget)) for budget in budgets), number)
        for number, policy in enumerate(policies)
    ]
    return Chart(title, Markup(charts.lines(title, budgets, series)))  # the drawing escapes what it is given


def _differences(title: str, name: str, rows: Sequence[Row], policies: Sequence[str], baseline: str) -> Chart | None:
    shown = [
        (f"{row.policy} · {row.budget}", policies.index(row.policy), interval)
        for row in rows
        if (interval := row.differences.get(name)) is not None
    ]
    told = f"{title}: points from {baseline}"
    return Chart(told, Markup(charts.intervals(told, shown))) if shown else None


def _bill(budget: str, rows: Sequence[Row], policies: Sequence[str]) -> Chart:
    groups = [SHORT.get(prices.name, prices.name) for prices in PRICE_MODELS]
    series = []
    for row in rows:
        totals = [row.bills[prices.name] for prices in PRICE_MODELS]
        series.append(
            Series(row.policy, tuple(one.total if one else None for one in totals), policies.index(row.policy))
        )
    title = f"budget {budget}: bill by price model, direct = 1"
    return Chart(title, Markup(charts.bars(title, groups, series)))
