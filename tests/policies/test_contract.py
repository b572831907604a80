"""Each rule of the contract, broken by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.contract import ContractError, check
from policies.model import Candidate, Choice, Form, Selection
from policies.testing import make_candidate, make_situation

TEXT = "one\ntwo\nthree"
ITEMS = (
    make_candidate(0, "system", 50, is_pinned=True),
    make_candidate(1, "assistant", 20, group=1, call=1),
    make_candidate(2, "tool_result", 200, group=1, call=1, text=TEXT, excerpt=90),
    make_candidate(3, "assistant", 20, group=2, call=2, is_seen=False),
)


CHAIN = (
    make_candidate(0, "tool_result", 200, excerpt=90),
    make_candidate(1, "tool_result", 200, excerpt=90, bases=["i0000"]),
    make_candidate(2, "tool_result", 200, excerpt=90, bases=["i0000", "i0001"]),
)
"""A file read three times: what changed, and what stands above."""


def verdict(changes: dict[int, tuple[Form, tuple[int, ...]]], items: Sequence[Candidate] = ITEMS) -> None:
    choices = [Choice(c.id, *_form(changes, c)) for c in items]
    check(make_situation(items), Selection(tuple(choices)))


def _form(changes: dict[int, tuple[Form, tuple[int, ...]]], c: Candidate) -> tuple[Form, str, float, tuple[int, ...]]:
    form, keep = changes.get(c.index, (Form.FULL, ()))
    return form, "", 0.0, keep


def test_what_is_allowed() -> None:
    verdict({})
    verdict({2: (Form.STUB, ())})
    verdict({2: (Form.EXCERPT, (0, 2))})
    verdict({1: (Form.FOLDED, ()), 2: (Form.FOLDED, (1,))})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({0: (Form.ABSENT, ())}, "pinned"),
        ({3: (Form.FOLDED, ())}, "before the model has seen it"),
        ({2: (Form.SUMMARY, ())}, "no form SUMMARY"),
        ({2: (Form.FOLDED, ())}, "split"),
        ({2: (Form.FULL, (0,))}, "only a reduced text"),
        ({2: (Form.STUB, (0,))}, "only a reduced text"),
        ({2: (Form.EXCERPT, (1, 0))}, "ascending"),
        ({2: (Form.EXCERPT, (1, 1))}, "ascending"),
        ({2: (Form.EXCERPT, (-1, 1))}, "ascending"),
        ({2: (Form.EXCERPT, (0, 99))}, "does not have"),
    ],
)
def test_what_is_not(changes: dict[int, tuple[Form, tuple[int, ...]]], words: str) -> None:
    with pytest.raises(ContractError, match=words):
        verdict(changes)


def test_a_delta_stands_on_what_is_in_full_and_on_deltas() -> None:
    delta = (Form.EXCERPT, ())
    verdict({1: delta}, CHAIN)
    verdict({1: delta, 2: delta}, CHAIN)
    verdict({0: (Form.STUB, ()), 1: (Form.STUB, ()), 2: (Form.STUB, ())}, CHAIN)


@pytest.mark.parametrize(
    "base",
    [(Form.STUB, ()), (Form.EXCERPT, ()), (Form.FOLDED, ()), (Form.FOLDED, (0,)), (Form.ABSENT, ())],
    ids=["stub", "lines", "folded", "kept lines", "absent"],
)
def test_no_delta_without_what_it_refers_to(base: tuple[Form, tuple[int, ...]]) -> None:
    items = (replace(CHAIN[0], text=TEXT), *CHAIN[1:])
    with pytest.raises(ContractError, match="whose lines do not stand"):
        verdict({0: base, 1: (Form.EXCERPT, ())}, items)
    held = {CHAIN[0].id: base[0], CHAIN[1].id: Form.EXCERPT}
    carried = Selection(tuple(Choice(c.id, Form.FULL, "") for c in items), is_carried=True)
    with pytest.raises(ContractError, match="whose lines do not stand"):
        check(make_situation(items, held=held), carried)


def test_no_delta_on_a_reading_of_which_only_lines_stay() -> None:
    items = (CHAIN[0], replace(CHAIN[1], text=TEXT), CHAIN[2])
    with pytest.raises(ContractError, match="whose lines do not stand"):
        verdict({1: (Form.EXCERPT, (0, 1)), 2: (Form.EXCERPT, ())}, items)


def test_no_delta_on_what_is_not_in_the_list() -> None:
    with pytest.raises(ContractError, match="whose lines do not stand"):
        verdict({1: (Form.EXCERPT, ())}, (ITEMS[0], replace(CHAIN[1], bases=("gone",))))


def test_one_choice_a_candidate_in_order() -> None:
    situation = make_situation(ITEMS)
    choices = tuple(Choice(c.id, Form.FULL, "") for c in ITEMS)
    with pytest.raises(ContractError, match="3 choices for 4"):
        check(situation, Selection(choices[:3]))
    with pytest.raises(ContractError, match="was expected"):
        check(situation, Selection((choices[1], choices[0], *choices[2:])))


def test_a_carried_selection_is_held_to_the_same_rules() -> None:
    items = (ITEMS[0], *ITEMS[1:])
    carried = Selection(tuple(Choice(c.id, Form.FULL, "") for c in items), is_carried=True)
    check(make_situation(items), carried)
    with pytest.raises(ContractError, match="split"):
        check(make_situation(items, held={items[1].id: Form.FOLDED}), carried)
    with pytest.raises(ContractError, match="pinned"):
        check(make_situation(items, held={items[0].id: Form.FOLDED}), carried)
    unseen = tuple(replace(c, is_seen=False) for c in items)
    with pytest.raises(ContractError, match="seen it"):
        check(make_situation(unseen, held={items[2].id: Form.STUB}), carried)
