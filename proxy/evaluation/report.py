"""What an evaluation says: a report for the terminal, as JSON, and as the table of a README. Plain text, 100 wide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten, wrap

import orjson

from proxy.errors import InputError
from proxy.evaluation.bill import PRICE_MODELS, Share
from proxy.evaluation.results import MissingItem, TaskResult, to_json
from proxy.evaluation.statistics import CONFIDENCE, METRICS, Interval, Row, Summary

WIDTH = 100
MOST_FAILED = 12
MOST_MISSING = 6
A_BLOCK = 5  # policies beside each other in a table of bills
PLACE = re.compile(r"(<!-- eval: begin -->\n).*?(<!-- eval: end -->)", re.S)

COLUMNS = (
    ("steps", "steps"),
    ("+expand", "steps_expanded"),
    ("tasks", "tasks"),
    ("+expand", "tasks_expanded"),
    ("needs", "needs"),
    ("+expand", "needs_expanded"),
    ("copies", "copies"),
    ("bill", "bill"),
)
COMPARED = (
    ("steps", "steps"),
    ("steps +expand", "steps_expanded"),
    ("tasks", "tasks"),
    ("tasks +expand", "tasks_expanded"),
    ("needs", "needs"),
    ("needs +expand", "needs_expanded"),
    ("copies", "copies"),
    ("bill", "bill"),
)


def text(summary: Summary, results: Sequence[TaskResult], most_failed: int = MOST_FAILED) -> str:
    """The whole report for a terminal."""
    lines: list[str] = []
    for source in dict.fromkeys(row.source for row in summary.rows):
        rows = [row for row in summary.rows if row.source == source]
        for budget in dict.fromkeys(row.budget for row in rows):
            lines += _budget([row for row in rows if row.budget == budget], summary.baseline)
        lines += _families([row for row in summary.families if row.source == source])
    lines += _failures(results, most_failed)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _budget(rows: Sequence[Row], baseline: str) -> Iterator[str]:
    first = rows[0]
    bound = f", {first.decided} of them bound by it" if first.decided < first.tasks else ""
    yield f"── {first.source} · {first.tasks} tasks · budget {first.budget}{bound} ".ljust(WIDTH, "─")
    yield ""
    yield f"{'policy':13}" + "".join(f"{title:>8}" for title, _ in COLUMNS) + f"{'reuse':>7}{'breaks':>7}{'bad':>5}"
    for row in rows:
        figures = "".join(f"{percent(row.values[name]):>8}" for _, name in COLUMNS)
        bad = row.over_budget + row.invalid_windows
        yield f"{row.policy[:13]:13}{figures}{row.reuse:7.2f}{row.breaks:7.1f}{bad or '-':>5}"
        if row.errors:
            yield f"{'':15}{row.errors} broke off: the reasons are below"
    yield ""
    yield from _compared([row for row in rows if row.differences], baseline)
    yield from _bills(rows)


def _compared(rows: Sequence[Row], baseline: str) -> Iterator[str]:
    for start in range(0, len(rows), A_BLOCK):
        block = rows[start : start + A_BLOCK]
        yield f"{f'from {baseline}'[:14]:15}" + "".join(f"{row.policy[:16]:>17}" for row in block)
        for title, name in COMPARED:
            cells = [signed(row.differences[name]) for row in block]
            if any(cell != "-" for cell in cells):
                yield f"{title:15}" + "".join(f"{cell:>17}" for cell in cells)
        yield ""
    if rows:
        yield f"in points, task by task, {CONFIDENCE:.0%} between the figures in brackets; a bill below zero is cheaper"
        yield ""


def _bills(rows: Sequence[Row]) -> Iterator[str]:
    for start in range(0, len(rows), A_BLOCK):
        block = rows[start : start + A_BLOCK]
        yield f"{'bill, direct = 1':20}" + "".join(f"{row.policy[:15]:>16}" for row in block)
        for prices in PRICE_MODELS:
            yield f"{prices.name:20}" + "".join(f"{shares(row.bills[prices.name]):>16}" for row in block)
        yield ""
    yield "bill: all money / the mean task / the worst task; expand calls are paid for"
    yield ""


def _families(rows: Sequence[Row]) -> Iterator[str]:
    policies = list(dict.fromkeys(row.policy for row in rows))[:A_BLOCK]
    if not rows or len({row.family for row in rows}) < 2:
        return
    yield f"{'steps · tasks passed, with expand':35}" + "".join(f"{policy[:12]:>13}" for policy in policies)
    cells = {(row.family, row.budget, row.policy): row for row in rows}
    for family, budget in dict.fromkeys((row.family, row.budget) for row in sorted(rows, key=lambda row: row.family)):
        found = [cells.get((family, budget, policy)) for policy in policies]
        shown = [
            f"{percent(row.values['steps_expanded'])} {row.passed_expanded}/{row.decided}" if row else ""
            for row in found
        ]
        yield f"{family[:24]:25}{budget:10}" + "".join(f"{cell:>13}" for cell in shown)
    yield ""


def _family(row: Row) -> str:
    return f"{percent(row.values['steps_expanded'])} {row.passed_expanded}/{row.decided}"


def failed(results: Sequence[TaskResult]) -> list[TaskResult]:
    """Those that had to be passed and were not: first where expand did not help either, then by policy as asked for."""
    order = list(dict.fromkeys(result.policy for result in results))
    found = [result for result in results if not result.passed and (result.checks or result.error)]
    return sorted(found, key=lambda result: (result.passed_expanded, order.index(result.policy)))


def _failures(results: Sequence[TaskResult], most: int) -> Iterator[str]:
    found = failed(results)
    if not found:
        yield "Every task was passed."
        return
    yield f"── {len(found)} of {len(results)} runs did not pass on what the window said by itself ".ljust(WIDTH, "─")
    for result in found[:most]:
        yield ""
        verdict = "passed with expand" if result.passed_expanded else "failed"
        yield (
            f"{result.task} · {result.policy} · {result.budget}: {verdict}; steps {result.steps_passed} of"
            f" {result.steps}, with expand {result.steps_passed_expanded}"
        )
        if result.error:
            yield from _wrapped(result.error, 4)
        for item in result.missing[:MOST_MISSING]:
            yield from missing(item)
        if len(result.missing) > MOST_MISSING:
            yield f"    and {len(result.missing) - MOST_MISSING} more"
    if len(found) > most:
        yield ""
        yield f"{len(found) - most}{' more' if most else ''} are in the files that --html and --json write."


def missing(item: MissingItem) -> Iterator[str]:
    """On one item: for what, and what had become of it."""
    score = f" · score {item.score:.2f}" if item.score is not None else ""
    followable = " · can be followed" if item.is_followable else ""
    yield from _wrapped(f"{item.check[:44]}: missed {item.what}", 4)
    yield from _wrapped(
        f"{item.item or 'no item'} · {item.role} · {item.tokens:,} tokens · {item.form} · {item.distance:,} back"
        f"{score}{followable} · {item.reason}", 6,
    )  # fmt: skip


def _wrapped(line: str, indent: int) -> list[str]:
    shown = shorten(line, 3 * WIDTH, placeholder=" …")
    return wrap(shown, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2))


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def signed(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{100 * interval.value:+.0f} [{100 * interval.low:+.0f},{100 * interval.high:+.0f}]"


def shares(share: Share | None) -> str:
    return "-" if share is None else f"{share.total:.2f}/{share.mean:.2f}/{share.worst:.2f}"


def as_json(summary: Summary, results: Sequence[TaskResult]) -> bytes:
    """Everything, sorted: the same results give the same bytes."""
    ordered = sorted(results, key=lambda result: (result.source, *result.key))
    whole = {
        "baseline": summary.baseline,
        "metrics": {metric.name: metric.title for metric in METRICS},
        "price_models": [asdict(prices) for prices in PRICE_MODELS],
        "rows": [asdict(row) for row in summary.rows],
        "families": [asdict(row) for row in summary.families],
        "results": [to_json(result) for result in ordered],
    }
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def readme_table(summary: Summary) -> str:
    """One row a source, budget and policy."""
    lines = [
        "| tasks | budget | policy | steps | with expand | passed | with expand | bill, direct = 1 | prefix kept |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in summary.rows:
        bill = row.bills["cached 0.1"]
        cells = (
            f"{row.decided} {row.source}", row.budget, f"`{row.policy}`", f"{percent(row.values['steps'])} %",
            f"{percent(row.values['steps_expanded'])} %", str(row.passed), str(row.passed_expanded),
            f"{bill.total:.2f}" if bill is not None else "-", f"{row.reuse:.2f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def check_place(path: Path) -> None:
    """InputError where `write_readme` would find no marks."""
    if not PLACE.search(path.read_text(encoding="utf-8")):
        raise InputError(
            f"{path} has no place for the table",
            hint="It goes between the lines <!-- eval: begin --> and <!-- eval: end -->.",
        )


def write_readme(summary: Summary, path: Path) -> None:
    """Put the table between its two marks. InputError where they are not there."""
    check_place(path)
    table = readme_table(summary)
    whole = path.read_text(encoding="utf-8")
    path.write_text(PLACE.sub(lambda match: f"{match[1]}{table}\n{match[2]}", whole), encoding="utf-8")
