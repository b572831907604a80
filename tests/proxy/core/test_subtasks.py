"""Subtasks that are done."""

from __future__ import annotations

from proxy.core.subtasks import Subtask, SubtaskReader
from tests.support.listed import call, listed, notes, shell, user

LONG = "collecting the cases of the harbour suite\n" * 20
HITS = "".join(f"src/harbour/quay.py:{n}: tide = {n}\nsrc/mole.py:{n}: tide\n" for n in range(20))


def finished(*parts: list[dict[str, object]]) -> list[Subtask]:
    reader = SubtaskReader()
    messages = [user("go"), *(message for part in parts for message in part)]
    return [made for item in listed(messages) if (made := reader.finished(item)) is not None]


def test_a_green_run_ends_the_red_ones_before_it() -> None:
    assert finished(
        shell(1, "pytest -q tests/", LONG + "3 failed, 2 passed in 1s\n"),
        shell(2, "sed -i s/a/b/ a.py"),
        shell(3, "python -m pytest tests/", LONG + "1 failed, 4 passed in 1s\n"),
        shell(4, "pytest -q", LONG + "5 passed in 1s\n"),
        shell(5, "pytest -q", LONG + "5 passed in 1s\n"),
    ) == [Subtask("tests", ("m2", "m6"), "m8")]


def test_a_red_run_or_a_run_that_is_no_test_ends_nothing() -> None:
    assert (
        finished(
            shell(1, "pytest", LONG + "3 failed in 1s"),
            shell(2, "pytest", LONG + "1 failed, 9 passed"),
            shell(3, "python a.py", "OK"),
        )
        == []
    )


def test_a_search_ends_when_a_file_that_it_named_is_opened() -> None:
    assert finished(
        shell(1, "grep -rn tide src", HITS), shell(2, "cat src/other.py", "x"),
        shell(3, "sed -n 1,9p src/mole.py", "y"), shell(4, "cat src/harbour/quay.py", "z"),
    ) == [Subtask("search", ("m2",), "m6")]  # fmt: skip


def test_a_ticked_plan_item_ends_what_was_done_for_it() -> None:
    def plan(number: int, *states: str) -> list[dict[str, object]]:
        steps = [{"step": f"s{n}", "status": state} for n, state in enumerate(states)]
        return call(number, "update_plan", "Plan updated", plan=steps)

    assert finished(
        plan(1, "in_progress", "pending"), shell(2, "ls -R", LONG), shell(3, "cat a.py", LONG),
        plan(4, "completed", "in_progress"), shell(5, "make all", LONG), plan(6, "completed", "in_progress"),
    ) == [Subtask("plan", ("m2", "m4"), "m8"), Subtask("plan", ("m8",), "m12")]  # fmt: skip


def test_the_window_hears_that_steps_are_worth_less_and_where_they_are() -> None:
    messages = [user("go"), *shell(1, "grep -rn tide src", HITS), *shell(2, "cat src/mole.py", "y")]
    note = notes(SubtaskReader(), messages)["m4"]
    assert note.stale == note.cites == ("m2",) and note.ends_subtask
