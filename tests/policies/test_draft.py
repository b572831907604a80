"""A draft's running figures are what summing over its items gives, whatever was lowered, and go back with it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.draft import Draft, digest_allowance, group_ranges, last_exchange
from policies.model import NOT_OFFERED, Budget, Candidate, Form, Situation

KINDS = st.sampled_from(["user", "assistant", "tool_result", "opaque"])


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    candidates: list[Candidate] = []
    group = 0
    for index in range(draw(st.integers(1, 12))):
        group += draw(st.booleans()) if index else 0
        stub = draw(st.sampled_from([NOT_OFFERED, 5, 9]))
        candidates.append(
            Candidate(
                f"i{index}",
                index,
                group,
                index,
                draw(KINDS),  # type: ignore[arg-type]
                (0, 0, stub, NOT_OFFERED, NOT_OFFERED, draw(st.integers(5, 50))),
                is_pinned=draw(st.booleans()) and draw(st.booleans()),
                is_seen=draw(st.booleans()) or draw(st.booleans()),
            )
        )
    forms = st.sampled_from([Form.ABSENT, Form.FOLDED, Form.STUB, Form.FULL])
    held = {c.id: draw(forms) for c in candidates if draw(st.booleans())}
    return Situation(tuple(candidates), Budget(1000), held={**held, "gone": Form.STUB}, digest_tokens=70)


def summed(draft: Draft) -> int:
    tokens = sum(max(0, c.costs[form]) for c, form in zip(draft.candidates, draft.forms, strict=True))
    return tokens + draft.digest_tokens


@given(situations(), st.lists(st.integers(0, 11), max_size=4))
def test_tokens_are_the_sum_of_what_stands(situation: Situation, lowered: list[int]) -> None:
    draft = Draft(situation)
    before = draft.tokens
    assert before == summed(draft)
    for index in lowered:
        if index < len(draft.forms) and draft.may_lower(index, Form.STUB):
            draft.lower(index, Form.STUB, "old")
    for group in draft.groups():
        if draft.can_fold(group):
            assert all(c.is_seen and not c.is_pinned for c in draft.candidates[group.start : group.stop])
            draft.fold(group, "old")
    assert draft.tokens == summed(draft)
    assert all(draft.cost(c.index) == max(0, c.costs[draft.forms[c.index]]) for c in draft.candidates)
    draft.reset()
    assert draft.tokens == before and not draft.is_changed


@given(situations())
def test_what_was_held_stays_as_far_as_the_contract_allows(situation: Situation) -> None:
    draft = Draft(situation)
    for candidate, form in zip(draft.candidates, draft.forms, strict=True):
        if form is not Form.FULL:
            assert candidate.is_seen and not candidate.is_pinned
            assert form is situation.held[candidate.id] or form <= Form.FOLDED
        members = [draft.forms[c.index] <= Form.FOLDED for c in draft.candidates if c.group == candidate.group]
        assert len(set(members)) == 1
    bare = Draft(replace(situation, held={}))
    assert set(bare.forms) == {Form.FULL}


def test_groups_and_the_last_exchange_are_read_from_the_candidates() -> None:
    kinds = ["user", "assistant", "tool_result", "assistant", "tool_result", "user"]
    candidates = [
        Candidate(f"i{i}", i, group, 0, kind, (0, 0, -1, -1, -1, 5))  # type: ignore[arg-type]
        for i, (group, kind) in enumerate(zip([0, 1, 1, 2, 2, 3], kinds, strict=True))
    ]
    assert group_ranges(candidates) == [range(1), range(1, 3), range(3, 5), range(5, 6)]
    assert group_ranges([]) == []
    assert last_exchange(candidates) == 3 and last_exchange(candidates[:1]) == 0
    assert digest_allowance(2) < digest_allowance(3)
