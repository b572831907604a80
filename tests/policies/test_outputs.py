"""Kinds of outputs, how likely each is needed again, and the lines by which one reports an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Candidate
from policies.outputs import error_segments, need_probability, output_kind
from policies.segments import split
from policies.testing import make_candidate


def result(tool: str, source: str = "", text: str = "") -> Candidate:
    return replace(make_candidate(1, "tool_result", 100), tool=tool, source=source, text=text)


@pytest.mark.parametrize(
    ("tool", "source", "kind"),
    [
        ("bash", "cd /srv && pytest -q", "run"),
        ("bash", "cat harbour/core.py", "read"),
        ("bash", "grep -rn tide .", "search"),
        ("bash", "git log -3", "git"),
        ("read_log", "worker-3", "run"),
        ("run_sql", "select 1", "sql"),
        ("ctx_expand", "m1", "copy"),
        ("get_order", "41", "lookup"),
        ("edit_file", "a.py", "edit"),
        ("bash", "hostname", "other"),
    ],
)
def test_a_result_is_of_its_calls_kind(tool: str, source: str, kind: str) -> None:
    assert output_kind(result(tool, source)) == kind


def test_large_outputs_are_needed_again_more_often_than_small_ones() -> None:
    assert need_probability("read", 100) < need_probability("read", 300) < need_probability("read", 900)
    assert need_probability("sql", 5_000) == 0.01


def test_the_first_and_the_last_reported_errors_are_found() -> None:
    lines = [f"INFO tide {n}" for n in range(50)]
    for at in (3, 10, 20, 44):
        lines[at] = f"2026-04-02 ERROR sluice {at}"
    text = "\n".join(lines)
    assert [split(text)[n].text[-9:] for n in error_segments(result("bash", text=text))] == [
        "sluice 3", "sluice 20", "sluice 44",
    ] or error_segments(result("bash", text=text)) == (3, 20, 44)  # fmt: skip
    assert error_segments(result("bash", text="def on_error(): raise ValueError")) == ()
