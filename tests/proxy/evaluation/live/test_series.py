"""A series is kept run by run, goes on where it was, and stops in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from proxy.config import LogConfig
from proxy.core.pricing import ModelFacts, Rates
from proxy.demo.provider import Provider
from proxy.demo.serving import serving
from proxy.errors import InputError, UndercliffError
from proxy.evaluation.kept import Kept
from proxy.evaluation.live.purse import CostReachedError, Ledger, Purse
from proxy.evaluation.live.series import Series, play_series
from proxy.evaluation.matrix import Cell
from proxy.evaluation.results import TaskResult
from proxy.evaluation.scripted.playing import ScriptedTask
from proxy.evaluation.task import Budget, budget
from proxy.logs import configure_logging
from tests.proxy.evaluation.live.models import Model, endpoint, story

FACTS = ModelFacts(window=128_000, rates=Rates(1.0, 1.0, 1.0, 4.0))


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    yield
    configure_logging(LogConfig())


@dataclass(frozen=True, slots=True)
class Fake:
    """A task that is passed, or cannot be played."""

    name: str
    error: str = ""
    family: str = "ops"
    source: str = "live"

    @property
    def digest(self) -> str:
        return self.name

    def run(self, policy: str, size: Budget) -> TaskResult:
        if self.error:
            raise UndercliffError(self.error)
        return TaskResult(self.name, self.family, self.source, policy, size.name, 9, passed=True)


def made(*tasks: Fake) -> list[Cell]:
    return [Cell(task, "sticky", budget("half")) for task in tasks]


@pytest.mark.parametrize("jobs", [1, 3])
def test_all_of_them_in_their_order(jobs: int) -> None:
    heard: list[tuple[str, bool]] = []
    outcome = play_series(
        made(*(Fake(f"t#{n}") for n in range(7))), jobs=jobs, on_result=lambda r, old: heard.append((r.task, old))
    )
    assert [result.task for result in outcome.results] == [f"t#{n}" for n in range(7)]
    assert outcome.stopped is None and outcome.wanted == 7 and sorted(heard) == [(f"t#{n}", False) for n in range(7)]


def test_it_stops_and_goes_on(tmp_path: Path) -> None:
    heard: list[tuple[str, bool]] = []
    first = made(Fake("a"), Fake("b", error="no money"), Fake("c"))
    with Kept(tmp_path) as kept:
        outcome = play_series(first, kept=kept, on_result=lambda r, old: heard.append((r.task, old)))
    assert [result.task for result in outcome.results] == ["a"] and str(outcome.stopped) == "no money"
    with Kept(tmp_path) as kept:
        again = play_series(
            made(Fake("a"), Fake("b"), Fake("c")), kept=kept, on_result=lambda r, old: heard.append((r.task, old))
        )
    assert [result.task for result in again.results] == ["a", "b", "c"] and again.stopped is None
    assert heard == [("a", False), ("a", True), ("b", False), ("c", False)]


def test_an_interrupt_goes_on_after_what_runs_is_kept(tmp_path: Path) -> None:
    def interrupt(result: TaskResult, was_kept: bool) -> None:
        if not was_kept:
            raise KeyboardInterrupt

    with Kept(tmp_path) as kept, pytest.raises(KeyboardInterrupt):
        play_series(made(Fake("a"), Fake("b")), kept=kept, on_result=interrupt)
    with Kept(tmp_path) as kept:
        outcome = play_series(made(Fake("a")), kept=kept, on_result=interrupt)
    assert outcome.results[0].task == "a"


def test_rounds_come_one_after_another() -> None:
    series = Series(endpoint("http://a"), Purse(FACTS), 2)
    tasks = [ScriptedTask(story()), Fake("recorded"), ScriptedTask(story(seed=2))]
    wanted = series.cells(tasks, ["sticky", "last_n"], [budget("half")])
    assert [cell.task.name.rpartition("#")[2] for cell in wanted] == ["1"] * 4 + ["2"] * 4
    assert [cell.policy for cell in wanted] == ["sticky", "last_n"] * 4
    with pytest.raises(InputError, match="played live"):
        series.cells([Fake("recorded")], ["sticky"], [budget("half")])


def test_the_money_ends_and_what_was_done_is_kept(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "spent.txt")
    with serving(Provider(Model(story()))) as url, Kept(tmp_path) as kept:
        alone = Purse(FACTS)
        tasks, policies, sizes = [ScriptedTask(story())], ["passthrough"], [budget("full")]
        Series(endpoint(url), alone).cells(tasks, policies, sizes)[0].run()
        purse = Purse(FACTS, limit=2.5 * alone.spent, book=ledger.add)
        wanted = Series(endpoint(url), purse, 5).cells(tasks, policies, sizes)
        outcome = play_series(wanted, kept=kept, on_result=lambda result, was_kept: None)
    assert isinstance(outcome.stopped, CostReachedError) and 0 < len(outcome.results) < 5
    assert all(result.passed_expanded for result in outcome.results)
    assert 0 < purse.spent <= 2.5 * alone.spent and ledger.total() == pytest.approx(purse.spent, abs=1e-6)
