"""The report: readable at 100 columns, every failed run with what it missed, JSON that repeats byte for byte."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from proxy.errors import InputError
from proxy.evaluation.report import WIDTH, as_json, failed, readme_table, text, write_readme
from proxy.evaluation.results import TaskResult, from_json
from proxy.evaluation.statistics import summarize
from tests.proxy.evaluation.fakes import FakeTask, result_of

RESULTS = [
    result_of(FakeTask(number, "code" if number % 2 else "desk"), policy, budget)
    for number in range(6)
    for budget in ("half", "quarter")
    for policy in ("sticky", "last_n", "greedy", "passthrough", "selector", "a_long_name_of_ones_own")
]


def test_it_fits_a_terminal_without_colour() -> None:
    shown = text(summarize(RESULTS), RESULTS)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert "\x1b" not in shown
    for word in ("sticky", "last_n", "budget half", "budget quarter", "no cache price", "code", "desk", "selector"):
        assert word in shown


def test_a_failed_run_names_what_it_missed() -> None:
    result = replace(RESULTS[0], missing=(replace(RESULTS[0].missing[0], is_followable=True, reason="why " * 40),))
    shown = text(summarize([result]), [result])
    item = result.missing[0]
    for word in (item.check, item.what, item.item, "tool", "absent", "score 0.25", "can be followed", "why why"):
        assert word in shown
    assert f"{item.tokens:,} tokens" in shown and f"{item.distance:,} back" in shown
    assert max(map(len, shown.splitlines())) <= WIDTH


def test_only_so_many_are_printed_and_the_rest_is_counted() -> None:
    shown = text(summarize(RESULTS), RESULTS, 1)
    assert f"{len(failed(RESULTS)) - 1} more are in" in shown
    worst = failed(RESULTS)
    assert [one.passed_expanded for one in worst] == sorted(one.passed_expanded for one in worst)


def test_an_error_is_told() -> None:
    broken = TaskResult("broken", "f", "recorded", "sticky", "half", 0, error="OSError: the disk is gone")
    shown = text(summarize([broken]), [broken])
    assert "the disk is gone" in shown and "1 broke off" in shown


def test_all_passed() -> None:
    fine = replace(RESULTS[0], passed=True)
    assert "Every task was passed." in text(summarize([fine]), [fine])


def test_json_repeats_byte_for_byte_and_holds_every_result() -> None:
    mixed = random.Random(1).sample(RESULTS, len(RESULTS))
    assert as_json(summarize(RESULTS), RESULTS) == as_json(summarize(RESULTS), mixed)
    whole = orjson.loads(as_json(summarize(RESULTS), RESULTS))
    assert {from_json(one) for one in whole["results"]} == set(RESULTS)
    assert whole["baseline"] == "last_n" and len(whole["rows"]) == 12


def test_the_table_goes_between_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("before\n<!-- eval: begin -->\nold\n<!-- eval: end -->\nafter\n")
    summary = summarize(RESULTS)
    write_readme(summary, path)
    write_readme(summary, path)
    whole = path.read_text()
    assert whole.startswith("before\n") and whole.endswith("after\n") and "old" not in whole
    assert whole.count(readme_table(summary)) == 1
    path.write_text("nothing")
    with pytest.raises(InputError, match="no place"):
        write_readme(summary, path)
