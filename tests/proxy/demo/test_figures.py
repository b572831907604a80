from __future__ import annotations

from proxy.demo.figures import Arm, sum_up
from tests.proxy.demo.test_view import make_figures


def test_figures_judge_themselves() -> None:
    assert make_figures().share == 0.5 and make_figures().is_good
    assert not make_figures(found=8).is_good and not make_figures(errors=1).is_good
    assert make_figures().as_dict()["through"]["bill"] == 0.4  # type: ignore[index]
    assert sum_up([], 0) == Arm(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
