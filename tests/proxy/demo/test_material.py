from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from proxy.demo.material import code_text, edited, json_rows, log_lines, search_hits

MAKERS: tuple[Callable[[Random, int], str], ...] = (
    lambda rng, size: search_hits(rng, size, "hold"),
    json_rows,
    lambda rng, size: log_lines(rng, size, "ERROR x", 0.5),
    lambda rng, size: code_text(rng, size, "src/x.py"),
)


@pytest.mark.parametrize("make", MAKERS)
def test_about_the_size_asked_for_and_the_same_again(make: Callable[[Random, int], str]) -> None:
    text = make(Random(3), 6_000)
    assert 5_400 < len(text) < 6_800
    assert text == make(Random(3), 6_000) != make(Random(4), 6_000)


def test_kinds_are_what_they_claim() -> None:
    rows = json.loads(json_rows(Random(1), 4_000))
    assert len(rows) > 20 and {"id", "vessel", "berth"} <= rows[0].keys()
    compile(code_text(Random(1), 6_000, "x.py"), "x.py", "exec")
    log = log_lines(Random(1), 6_000, "ERROR lost", 0.5)
    assert log.count("ERROR") == 1 and 0.4 < log.index("ERROR") / len(log) < 0.6


def test_an_edit_adds_one_line() -> None:
    text = code_text(Random(1), 4_000, "x.py")
    before, after = text.split("\n"), edited(text, 3).split("\n")
    assert len(after) == len(before) + 1 and set(after) - set(before) == {
        "# revision 3: keep the hold until the tide has turned"
    }
