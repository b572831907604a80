"""What people are shown: controls as pictures, formulas as text."""

from __future__ import annotations

import pytest

from proxy.core.display import cell, visible


def test_controls_are_pictures() -> None:
    assert visible("a\x1b[31mb\x7f\u202ec\n\td\ud800") == "a␛[31mb␡\ufffdc\n\td\ufffd"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1"])
def test_a_formula_is_text(text: str) -> None:
    assert cell(text) == "'" + text


@pytest.mark.parametrize("text", ["", "1", "a=b", "'=1", " =1"])
def test_other_cells_stay(text: str) -> None:
    assert cell(text) == text
