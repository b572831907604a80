"""Needs from the messages alone: what counts, what does not, and the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from proxy.evaluation.recorded.labels import common_atoms, derive, group_of, plain
from proxy.evaluation.recorded.runs import Run, run_of
from proxy.tokenizer import Tokenizer
from tests.proxy.evaluation.recorded.made import call, messages, result, run
from tests.support.serve import ROOT

START: list[dict[str, Any]] = [
    {"role": "system", "content": "Use path/of/system.py for all."},
    {"role": "user", "content": "Look at the gauge GAUGE-481516 first."},
]
BETWEEN = [m for n in range(10, 16) for m in (call(n, "look", at=f"place {n}"), result(n, "nothing of interest " * 20))]


def made(*more: dict[str, Any]) -> Run:
    listed = [*START, *more]
    return derive(run_of("x", listed, Tokenizer()), listed)


def atoms(found: Run) -> dict[int, set[str]]:
    return {step.index: {fact.atom for fact in step.facts if not fact.is_whole} for step in found.steps}


def test_what_an_action_took_from_an_earlier_result_is_a_need() -> None:
    found = made(
        call(1, "look", at="log"),
        result(1, "it says order 7741093 is late"),
        *BETWEEN,
        call(2, "cancel_order", order="7741093"),
        result(2, "ok"),
    )
    (step,) = found.steps
    (fact,) = [fact for fact in step.facts if not fact.is_whole]
    assert (fact.atom, fact.sources, fact.band) == ("7741093", (3,), "far") and step.is_decisive


def test_bands() -> None:
    near = made(
        call(1, "look", at="log"),
        result(1, "order 7741093"),
        *BETWEEN[:4],
        call(2, "look", at="7741093"),
        result(2, "x"),
    )
    task = made(*BETWEEN, call(2, "look", at="GAUGE-481516"), result(2, "x"))
    assert near.steps[0].facts[0].band == "near" and task.steps[-1].facts[0].band == "task"


def test_what_is_no_need() -> None:
    new = call(2, "look", at="something_new_entirely")
    system = call(3, "look", at="path/of/system.py")
    assert (
        atoms(
            made(
                *BETWEEN,
                new,
                result(2, "x"),
                call(8, "look", at="the last one"),
                result(8, "y"),
                system,
                result(3, "x"),
            )
        )
        == {}
    )
    just_now = made(
        *BETWEEN, call(2, "look", at="log"), result(2, "order 7741093"), call(3, "look", at="7741093"), result(3, "x")
    )
    assert atoms(just_now) == {}
    often = [m for n in range(4) for m in (call(n, "look", at=f"log {n}"), result(n, "order 7741093 again"))]
    assert atoms(made(*often, *BETWEEN, call(9, "look", at="7741093"), result(9, "x"))) == {}


def test_its_own_coinage_is_no_need_but_a_path_is() -> None:
    coined = call(1, "note", text="name it\n    value = compute_the_tide(now)  # our own idea\n")
    again = call(2, "note", text="again\n    value = compute_the_tide(now)  # our own idea\n")
    assert atoms(made(coined, result(1, "x"), *BETWEEN, again, result(2, "x"))) == {}
    path = made(
        call(1, "make", path="out/report_of_tides.txt"),
        result(1, "x"),
        *BETWEEN,
        call(2, "send", path="out/report_of_tides.txt"),
        result(2, "x"),
    )
    assert atoms(path) == {16: {"out/report_of_tides.txt"}}


def test_a_longer_need_holds_a_shorter_one() -> None:
    line = "threshold_of_gauge = 55512345  # set by hand"
    found = made(
        call(1, "read", path="a.py"),
        result(1, f"x\n{line}\ny"),
        *BETWEEN,
        call(2, "edit_file", path="b.py", new=f"p\n{line}\nq"),
        result(2, "x"),
    )
    assert atoms(found) == {16: {line}}


def test_a_write_needs_its_object_s_newest_state_whole() -> None:
    found = made(
        call(1, "read_file", path="src/gauges.py"),
        result(1, "old"),
        call(2, "read_file", path="src/gauges.py"),
        result(2, "new"),
        *BETWEEN,
        call(3, "edit_file", path="src/gauges.py", new="z"),
        result(3, "x"),
    )
    (state,) = [fact for fact in found.steps[-1].facts if fact.is_whole]
    assert state.sources == (5,) and found.steps[-1].is_decisive


def test_commands_in_code_blocks() -> None:
    block = {"role": "assistant", "content": "Then\n```bash\ncat lib/deep_harbour_table.txt\n```"}
    found = made(
        call(1, "look", at="list"),
        result(1, "there is lib/deep_harbour_table.txt"),
        *BETWEEN,
        block,
        {"role": "user", "content": "out"},
    )
    assert atoms(found) == {16: {"lib/deep_harbour_table.txt"}}


def test_habits_of_many_groups() -> None:
    habit = [call(1, "bash", command="git_status"), call(2, "bash", command="order 4815162342")]
    found = common_atoms([("a", habit), ("b", habit), ("c", habit)])
    assert "git_status" in found and not any("4815162342" in atom for atom in found)
    assert common_atoms([("a", habit), ("a", habit), ("b", habit)]) == frozenset()  # reruns of one task are one


def test_groups_and_escapes() -> None:
    assert group_of("mini-1-django__django-11910") == "django" and group_of("run-7") == "run"
    assert plain('a\\nb\\"c') == 'a\nb"c' and plain("as it is") == "as it is"


def test_made_runs_have_needs_of_every_kind() -> None:
    found = run()
    assert {fact.band for step in found.steps for fact in step.facts} >= {"near", "far"} and len(found.steps) >= 4
    assert messages(1) != messages(2)


def test_the_same_in_every_process() -> None:
    code = "from tests.proxy.evaluation.recorded.made import run; print(repr(run(3).steps))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT, text=True,
            capture_output=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
