"""The plain weighted sum: every term moves it, and the policy that uses it keeps the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.history import Histories
from policies.model import Candidate
from policies.plain import DEFAULT, plain_scores, plain_weights
from policies.scoring import focus
from policies.selector import Greedy, SelectorOptions
from policies.testing import check_policy, make_situation
from tests.policies import runs

RUN = runs.run(20)
AT = next(c.index for c in RUN if c.kind == "tool_result" and len(c.text) > 200 and c.index < 12)


def item_score(items: Sequence[Candidate], index: int, query: str = "") -> float:
    history = Histories().of(items)
    return sum(plain_scores(history, [index], DEFAULT, focus(history, query), items)[index])


def changed(index: int, **values: object) -> list[Candidate]:
    return [replace(c, **values) if c.index == index else c for c in RUN]  # type: ignore[arg-type]


def test_every_term_moves_the_score() -> None:
    plain = item_score(RUN, AT)
    assert item_score(changed(AT, importance=0.5), AT) > plain
    assert item_score(changed(AT, is_stale=True), AT) < plain
    assert item_score(changed(30, cites=(RUN[AT].id,)), AT) > plain
    assert item_score(RUN[: AT + 3], AT) > plain
    word = next(word for word in Histories().of(RUN).readings[AT].words if "_" in word)
    assert item_score(RUN, AT, word) > plain


def test_terms_are_known_by_name() -> None:
    assert plain_weights({"recency": 3.0})["recency"] == 3.0
    with pytest.raises(ValueError, match="no term 'colour'"):
        plain_weights({"colour": 1.0})


def test_it_is_selectable() -> None:
    policy = Greedy(SelectorOptions(weights="plain", adjust={"recency": 2.0}))
    assert check_policy(policy, [make_situation(RUN, ceiling=room) for room in (500, 2_000, 5_000)]) == 3
    with pytest.raises(ValueError, match="no term"):
        SelectorOptions(weights="plain", adjust={"qhot": 1.0})
    with pytest.raises(ValueError, match="no feature"):
        SelectorOptions(adjust={"recency": 1.0})
