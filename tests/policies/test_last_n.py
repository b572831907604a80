"""The baseline: newest whole groups within the budget, pins always, a list that begins properly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.contract import check
from policies.last_n import LastN, LastNOptions
from policies.model import Form, Pressure
from policies.testing import check_policy, forms_of, make_candidate, make_session, make_situation, random_situation


def test_all_fits_all_stays() -> None:
    selection = LastN().select(make_situation(make_session(5)))
    assert set(forms_of(selection).values()) == {Form.FULL}
    assert selection.reason == ""


def test_budget_keeps_pins_and_the_newest_groups() -> None:
    candidates = make_session(20, 1_000)
    selection = LastN().select(make_situation(candidates, ceiling=5_500))
    kept = [choice.form is Form.FULL for choice in selection.choices]
    assert kept == [True] * 2 + [False] * 32 + [True] * 8
    assert sum(c.tokens for c, is_kept in zip(candidates, kept, strict=True) if is_kept) <= 5_500


def test_messages_option_counts_items_in_whole_groups() -> None:
    selection = LastN(LastNOptions(messages=3)).select(make_situation(make_session(20, 1_000)))
    assert [choice.form is Form.FULL for choice in selection.choices].count(True) == 2 + 4


def test_last_exchange_stays_over_budget() -> None:
    selection = LastN().select(make_situation(make_session(3, 9_000), ceiling=100))
    assert [choice.form is Form.FULL for choice in selection.choices] == [True] * 2 + [False] * 4 + [True] * 2


def test_pressure_lowers_the_room() -> None:
    situation = make_situation(make_session(20, 1_000), pressure=Pressure("overflow", 5_500))
    assert sum(choice.form is Form.FULL for choice in LastN().select(situation).choices) == 10


def test_the_list_does_not_begin_with_a_lone_result() -> None:
    candidates = [make_candidate(0, "user", 10, is_pinned=True)]
    candidates += [make_candidate(1, "assistant", 5_000), make_candidate(2, "tool_result", 50)]
    candidates += [make_candidate(3, "user", 50), make_candidate(4, "assistant", 50, call=1)]
    selection = LastN().select(make_situation(candidates, ceiling=1_000))
    assert [choice.form is Form.FULL for choice in selection.choices] == [True, False, False, True, True]


@given(st.integers(0, 10_000))
def test_contract_and_head_on_any_situation(seed: int) -> None:
    situation = random_situation(seed)
    selection = LastN().select(situation)
    check(situation, selection)
    forms = [choice.form for choice in selection.choices]
    if Form.ABSENT in forms:
        first_cut = forms.index(Form.ABSENT)
        for candidate in situation.candidates[first_cut:]:
            if forms[candidate.index] is Form.FULL and not candidate.is_pinned and candidate.is_seen:
                group = [c for c in situation.candidates if c.group == candidate.group]
                if any(c.is_pinned or not c.is_seen for c in group):
                    continue
                assert any(c.kind in ("user", "assistant") for c in group)
                break


def test_conforms() -> None:
    assert check_policy(LastN()) == 300
    with pytest.raises(ValueError, match="messages"):
        LastNOptions(messages=-1)
