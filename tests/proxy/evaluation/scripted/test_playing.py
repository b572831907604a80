"""Stories through the real proxy: in full all pass; at a quarter only who can fetch; and the misses are named."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from proxy.config import LogConfig
from proxy.evaluation.results import TaskResult
from proxy.evaluation.scripted.playing import ScriptedTask, sizes
from proxy.evaluation.scripted.spec import tell, trades
from proxy.evaluation.task import budget
from proxy.logs import configure_logging
from proxy.tokenizer import Tokenizer


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    yield
    configure_logging(LogConfig())


def task(trade: int = 4, plot: int = 0, seed: int = 1) -> ScriptedTask:
    found = trades()[trade]
    return ScriptedTask(tell(found["plot"][plot], found, seed))


@pytest.mark.parametrize("policy", ["passthrough", "last_n", "sticky"])
def test_in_full_every_policy_passes(policy: str) -> None:
    result = task().run(policy, budget("full"))
    assert result.passed and result.passed_expanded and not result.missing and not result.error
    assert result.needs == result.needs_met > 0 and result.expansions == 0 and result.reuse > 0.9


def test_the_whole_list_does_not_fit_a_quarter() -> None:
    result = task().run("passthrough", budget("quarter"))
    assert not result.passed_expanded and "maximum context" in result.error
    assert {check.why for check in result.checks} == {"not reached"}


def test_keep_last_n_misses_and_the_misses_are_named() -> None:
    result = task().run("last_n", budget("quarter"))
    assert not result.passed_expanded and result.expansions == 0
    assert result.missing and all(
        one.form == "absent" and one.tokens > 0 and one.distance > 0 for one in result.missing
    )
    assert {one.check for one in result.missing} <= {check.name for check in result.checks if not check.passed}


def test_sticky_fetches_within_its_budget() -> None:
    result = task().run("sticky", budget("quarter"))
    assert result.needs_met_expanded > result.needs_met and result.expansions > 0
    assert result.over_budget == result.invalid_windows == 0 and result.budget_use <= 1
    assert result.expansion_tokens > 0 and sum(call.is_expand for call in result.calls) == result.expansions


def test_what_was_folded_away_is_named_by_its_item() -> None:
    result = task().run("sticky", budget("quarter"))
    forms = {one.form for one in result.missing}
    assert forms <= {"folded", "stub", "excerpt", "absent", "full"} and "folded" in forms
    assert all(re.fullmatch(r"[a-z2-7]{12}", one.item) and one.reason for one in result.missing)


def test_the_same_again() -> None:
    first, again = (task(0).run("sticky", budget("half")) for _ in range(2))
    assert isinstance(first, TaskResult) and first == again


def test_sizes_of_a_direct_run() -> None:
    story = task().story
    found = sizes(story, Tokenizer())
    assert found.direct[-1].input == found.whole > 10_000 > found.pinned
    assert all(bill.cached <= bill.input for bill in found.direct)
