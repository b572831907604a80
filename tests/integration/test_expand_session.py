"""A session with planted error lines: each is found again, also over kills of the proxy between the questions."""

from __future__ import annotations

import pytest

from tests.bench.expand_session import EVERY, TURNS, WINDOW, run


@pytest.mark.parametrize("turns", [12, pytest.param(TURNS, marks=pytest.mark.slow)], ids=["short", "whole"])
def test_each_planted_line_is_found_and_the_bill_counts_the_asking(turns: int) -> None:
    """Ten of ten in the whole session; three of three in the short one, in a window as much smaller."""
    found = run(turns=turns, window=WINDOW * turns // TURNS)
    assert found["answered"] == found["planted"] == turns // EVERY and not found["refusals"]
    assert found["calls of the tool"] >= found["planted"]
    assert 0 < found["of it for the tool"] < found["bill"]
    if turns == TURNS:
        assert found["bill"] < found["whole list"]
