"""Results that are kept: found again under the same task, policy, budget and code, and whole after a cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.errors import InputError
from proxy.evaluation.kept import FILE, Kept, code_version, key_of, policy_version
from proxy.evaluation.results import TaskResult
from proxy.evaluation.task import budget
from tests.proxy.evaluation.fakes import FakeTask, result_of

ONE, TWO = (FakeTask(number) for number in (1, 2))


def fill(folder: Path) -> None:
    with Kept(folder) as kept:
        for key, task in (("a", ONE), ("b", TWO)):
            kept.add(key, result_of(task, "sticky", "half"))


def test_what_was_added_is_there_later(tmp_path: Path) -> None:
    fill(tmp_path / "new" / "folder")
    with Kept(tmp_path / "new" / "folder") as kept:
        assert kept.get("b") == result_of(TWO, "sticky", "half")
        assert kept.get("c") is None


def test_a_torn_last_line_is_dropped_and_written_over(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with Kept(tmp_path) as kept:
        assert kept.get("a") is not None and kept.get("b") is None
        kept.add("b", result_of(TWO, "sticky", "half"))
    assert path.read_bytes() == whole


@pytest.mark.parametrize("line", ["[]", "{", '{"key": "x", "result": {"task": 1}}', "", "nonsense"])
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    fill(tmp_path)
    path = tmp_path / FILE
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{line}\n{second}\n")
    with pytest.raises(InputError, match="line 2") as caught, Kept(tmp_path):
        pass
    assert str(path) in str(caught.value) and "Delete that line" in caught.value.hint


def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    with Kept(tmp_path) as kept:
        kept.add("a", TaskResult("t", "f", "live", "x", "full", 0, error="boom"))
        assert kept.get("a") is None


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be kept in") as caught, Kept(tmp_path / "file"):
        pass
    assert "--out" in caught.value.hint


def test_a_key_differs_by_everything_that_counts(tmp_path: Path) -> None:
    half = budget("half")
    keys = {
        key_of(ONE, "sticky", half),
        key_of(TWO, "sticky", half),
        key_of(ONE, "last_n", half),
        key_of(ONE, "sticky", budget("8K")),
        key_of(FakeTask(1, source="live"), "sticky", half),
    }
    assert len(keys) == 5
    assert key_of(FakeTask(1), "sticky", half) in keys
    assert len(code_version()) == 64


def test_a_policy_of_ones_own_counts_by_its_code() -> None:
    assert policy_version("sticky") == ""
    assert len(policy_version("tests.policies.example:Forget")) == 64
