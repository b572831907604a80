"""The matrix: every cell once, in order, whatever one of them does to its process; and it goes on where it stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.evaluation import matrix
from proxy.evaluation.kept import Kept
from proxy.evaluation.matrix import cells, run
from proxy.evaluation.results import TaskResult
from proxy.evaluation.task import budget
from tests.proxy.evaluation.fakes import FakeTask

BUDGETS = [budget("half"), budget("quarter")]


def ignore(result: TaskResult, was_kept: bool) -> None:
    pass


def test_every_cell_in_order_and_the_same_again() -> None:
    wanted = cells([FakeTask(number) for number in range(4)], ["last_n", "sticky"], BUDGETS)
    results = run(wanted, jobs=2, on_result=ignore)
    assert [result.key for result in results] == [(c.task.name, c.policy, c.budget.name) for c in wanted]
    assert results == run(wanted, jobs=1, on_result=ignore) == [cell.run() for cell in wanted]


def test_what_raises_or_dies_is_a_result_and_harms_no_other() -> None:
    tasks = [FakeTask(0), FakeTask(1, fate="raise"), FakeTask(2, fate="die"), FakeTask(3), FakeTask(4)]
    results = run(cells(tasks, ["sticky"], BUDGETS[:1]), jobs=2, on_result=ignore)
    errors = [result.error for result in results]
    assert errors[1] == "ZeroDivisionError: task 1 cannot be done"
    assert "died" in errors[2]
    assert [errors[0], errors[3], errors[4]] == ["", "", ""]


def test_a_second_run_does_only_what_is_left(tmp_path: Path) -> None:
    noted = tmp_path / "runs"
    tasks = [FakeTask(number, fate=str(noted)) for number in range(3)]
    seen: list[bool] = []
    with Kept(tmp_path / "out") as kept:
        first = run(cells(tasks[:2], ["sticky"], BUDGETS), jobs=1, kept=kept, on_result=ignore)
    with Kept(tmp_path / "out") as kept:
        again = run(
            cells(tasks, ["sticky"], BUDGETS), jobs=1, kept=kept, on_result=lambda result, known: seen.append(known)
        )
    assert again[:4] == first
    assert sorted(seen) == [False, False, True, True, True, True]
    assert len(noted.read_text().splitlines()) == 6


def test_nothing_wanted_is_nothing() -> None:
    assert run([], on_result=ignore) == []


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from proxy.evaluation.kept import Kept
from proxy.evaluation.matrix import cells, run
from proxy.evaluation.task import budget
from tests.proxy.evaluation.fakes import FakeTask

if __name__ == "__main__":
    def interrupt(result, known):
        if not known:
            os.kill(os.getpid(), signal.SIGINT)
    wanted = cells([FakeTask(number) for number in range(6)], ["sticky"], [budget("half")])
    with Kept(Path(sys.argv[1])) as kept:
        run(wanted, jobs=1, kept=kept, on_result=interrupt)
"""


def test_an_interrupt_leaves_whole_lines(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    root = Path(matrix.__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "out")], cwd=root, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.returncode in (-signal.SIGINT, 1, 130) and "KeyboardInterrupt" in done.stderr
    with Kept(tmp_path / "out") as kept:
        lines = (tmp_path / "out" / "results.jsonl").read_bytes().splitlines()
        assert 1 <= len(lines) < 6
        assert len(run(cells([FakeTask(0)], ["sticky"], BUDGETS[:1]), kept=kept, on_result=ignore)) == 1


@pytest.mark.parametrize("jobs", [0, 1, 9])
def test_any_number_of_jobs(jobs: int) -> None:
    (result,) = run(cells([FakeTask(1)], ["sticky"], BUDGETS[:1]), jobs=jobs, on_result=ignore)
    assert not result.error
