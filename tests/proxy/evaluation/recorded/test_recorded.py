"""Recorded runs as tasks of the matrix: from files, under any policy, with every miss named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from proxy.errors import ConfigError
from proxy.evaluation.recorded.recorded import ONLY_HERE, RecordedTask, recorded_tasks
from proxy.evaluation.results import from_json, to_json
from proxy.evaluation.task import budget
from tests.proxy.evaluation.recorded.made import messages


def task(seed: int = 1) -> RecordedTask:
    return RecordedTask("made-1", tuple(messages(seed)), "made")


@pytest.mark.parametrize("policy", ["passthrough", "last_n", "sticky", "selector", *ONLY_HERE])
def test_in_full_everything_passes(policy: str) -> None:
    result = task().run(policy, budget("full"))
    assert result.passed and result.needs == result.needs_met > 0 and not result.missing


def test_bounds_at_a_quarter() -> None:
    oracle, last, whole = (task().run(policy, budget("quarter")) for policy in ("oracle", "last_n", "passthrough"))
    assert oracle.passed and oracle.needs_met == oracle.needs > 0
    assert not last.passed and not whole.passed and whole.over_budget
    assert last.missing and {one.form for one in last.missing} == {"absent"}
    assert all(one.tokens > 0 and one.distance > 0 for one in last.missing)


def test_a_selector_names_what_it_left_out() -> None:
    result = task().run("selector", budget("half"))
    assert result.over_budget == result.invalid_windows == 0 and result.reuse > 0.5
    assert result.expansions == sum(call.is_expand for call in result.calls) or result.expansions > 0
    assert from_json(to_json(result)) == result


def test_other_names_are_another_task() -> None:
    plain, other = RecordedTask("x", tuple(messages()), "made", seed=0), task()
    assert plain.digest != other.digest and pickle.loads(pickle.dumps(other)) == other
    assert plain.run("last_n", budget("half")).needs == other.run("last_n", budget("half")).needs


def test_files_that_are_long_enough(tmp_path: Path) -> None:
    (tmp_path / "talk-1.jsonl").write_text("\n".join(json.dumps(m) for m in messages()))
    (tmp_path / "short.jsonl").write_text("\n".join(json.dumps(m) for m in messages(files=2, lines=3)))
    (found,) = recorded_tasks([tmp_path])
    assert (found.name, found.family, found.source) == ("talk-1", "talk", "recorded")


def test_no_such_policy() -> None:
    with pytest.raises(ConfigError, match="wishful") as caught:
        task().run("wishful", budget("half"))
    assert "oracle" in caught.value.hint
