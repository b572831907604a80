"""Which tasks and policies are meant by words."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from proxy.errors import InputError
from proxy.evaluation.sources import check_policies, chosen, from_files, rows_of, scripted
from tests.proxy.evaluation.recorded.made import messages


def test_fifty_and_more_ship() -> None:
    tasks = scripted()
    assert len({task.name for task in tasks}) == len(tasks) >= 50
    assert len({task.digest for task in tasks}) == len(tasks)
    assert not {task.digest for task in tasks} & {task.digest for task in scripted(seed=100)}
    assert pickle.loads(pickle.dumps(tasks[0])).digest == tasks[0].digest


def test_recorded_runs_are_tasks_and_know_bounds(tmp_path: Path) -> None:
    path = tmp_path / "run-1.jsonl"
    path.write_text("\n".join(json.dumps(message) for message in messages()))
    tasks = from_files([path], seed=2)
    assert [task.name for task in tasks] == ["run-1"] and "oracle" in rows_of(tasks) and not rows_of(scripted())
    path.write_text(json.dumps({"role": "user", "content": "hello"}))
    with pytest.raises(InputError, match="long enough"):
        from_files([path])


@pytest.mark.parametrize("pattern", ["all", "scripted", "ops", "ops-*-1", "*-2"])
def test_a_pattern_names_tasks(pattern: str) -> None:
    tasks = scripted()
    found = chosen(tasks, pattern)
    assert found and (len(found) < len(tasks)) == (pattern not in ("all", "scripted"))


def test_a_pattern_that_means_none_says_what_there_is() -> None:
    with pytest.raises(InputError, match="'sailing'") as caught:
        chosen(scripted(), "sailing")
    assert "ops" in caught.value.hint and "scripted" in caught.value.hint


def test_an_unknown_policy_lists_the_known_ones() -> None:
    check_policies(["sticky", "last_n", "tests.policies.example:Forget"])
    check_policies(["oracle"], rows=("oracle",))
    with pytest.raises(InputError, match="stikky") as caught:
        check_policies(["sticky", "stikky"])
    assert "last_n" in caught.value.hint and "passthrough" in caught.value.hint
