"""A survey made from that of a shorter list is the one made from nothing, whatever changed in between."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.contract import ContractError, check
from policies.draft import Draft
from policies.model import NOT_OFFERED, Budget, Candidate, Choice, Form, Selection, Situation
from policies.survey import survey, survey_of
from tests.policies.test_draft import situations

FORMS = st.sampled_from([Form.ABSENT, Form.FOLDED, Form.STUB, Form.FULL])


@given(situations(), situations(), st.data())
def test_a_grown_survey_is_the_one_made_from_nothing(first: Situation, other: Situation, data: st.DataObject) -> None:
    """A list goes on from any place of the first one, its items changed anywhere and its held forms the same or not."""
    count = data.draw(st.integers(0, len(first.candidates)))
    held = first.held if data.draw(st.booleans()) else dict(first.held)
    begun = list(first.candidates[:count])
    for index in data.draw(st.lists(st.integers(0, 11), max_size=2)):
        if index < count:
            begun[index] = replace(begun[index], is_seen=not begun[index].is_seen)
    group = begun[-1].group + data.draw(st.integers(0, 1)) if begun else 0
    more = [
        replace(c, id=data.draw(st.sampled_from([c.id, f"new-{c.id}"])) if c.index >= count else f"new-{c.id}",
                index=count + c.index, group=group + c.group)
        for c in other.candidates
    ]  # fmt: skip
    ids = [c.id for c in (*begun, *more)]
    candidates = tuple(c for at, c in enumerate((*begun, *more)) if c.id not in ids[:at])
    candidates = tuple(replace(c, index=at) if c.index != at else c for at, c in enumerate(candidates))
    known = survey(first.candidates, first.held)
    grown, made = survey(candidates, held, known), survey(candidates, held)
    for name in type(made).__slots__:
        assert getattr(grown, name) == getattr(made, name), name


@given(situations())
def test_what_a_survey_allows_the_contract_allows(situation: Situation) -> None:
    made = survey(situation.candidates, situation.held)
    choices = tuple(Choice(c.id, situation.held.get(c.id, Form.FULL), "") for c in situation.candidates)
    if made.is_as_held:
        check(situation, Selection(choices, is_carried=True))
        check(situation, Selection(choices))
    told = replace(situation, survey=made)
    try:
        check(situation, Selection(choices, is_carried=True))
    except ContractError:
        assert not made.is_as_held
        told_error = None
        try:
            check(told, Selection(choices, is_carried=True))
        except ContractError as error:
            told_error = error
        assert told_error is not None


def test_a_survey_of_something_else_is_not_used() -> None:
    costs = (0, 0, 5, NOT_OFFERED, NOT_OFFERED, 9)
    items = tuple(Candidate(f"i{n}", n, n, n, "assistant", costs, is_seen=True) for n in range(3))
    own = survey(items, {})
    situation = Situation(items, Budget(100), held={"i0": Form.STUB}, survey=own)
    assert survey_of(situation) is not own
    assert Draft(situation).forms[0] is Form.STUB
    fits = replace(situation, held=own.held)
    assert survey_of(fits) is own
    assert survey_of(replace(fits, candidates=items[:2])).candidates == items[:2]


def test_only_what_is_new_is_looked_at() -> None:
    costs = (0, 0, 5, NOT_OFFERED, NOT_OFFERED, 9)
    items = tuple(Candidate(f"i{n}", n, n, n, "assistant", costs, is_seen=True) for n in range(300))
    known = survey(items[:298], {})
    grown = survey(items, known.held, known)
    assert all(a is b for a, b in zip(grown.groups, known.groups, strict=False))
    assert survey(items, known.held, grown) is grown
