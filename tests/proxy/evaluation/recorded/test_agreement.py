from __future__ import annotations

from proxy.evaluation.recorded.agreement import agreement
from proxy.evaluation.recorded.runs import Fact, Step


def test_agreement_counts_each_need_once() -> None:
    ours = [Step(4, True, (Fact("a", (1,), "near"), Fact("b", (2,), "far")))]
    theirs = [Step(4, True, (Fact("a", (1,), "near"), Fact("c", (2,), "far"), Fact("d", (3,), "far", is_whole=True)))]
    rows = {row.heading: row for row in agreement([("made", ours, theirs)])}
    assert (rows["all"].both, rows["all"].ours, rows["all"].reference) == (1, 2, 3)
    assert rows["all"].precision == 0.5 and rows["band near"].recall == 1.0 and rows["state"].recall == 0.0
