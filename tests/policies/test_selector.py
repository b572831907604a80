"""The two selecting policies: budget, pins, groups and order kept; sticky until it is full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.contract import Policy, check
from policies.model import Budget, Candidate, Form, Pressure, Selection, Situation
from policies.selector import Greedy, Selector, SelectorOptions, lay_out
from policies.testing import check_policy, make_situation
from tests.policies import runs

RUN = runs.run(40)
OPTIONS = SelectorOptions(index=0.0)


def ask(policy: Policy, items: Sequence[Candidate], room: int, held: Selection | None = None) -> Selection:
    forms = {choice.id: choice.form for choice in held.choices} if held else {}
    kept = {choice.id: choice.keep for choice in held.choices if choice.keep} if held else {}
    digest = sum(tokens_of(items, held)) if held else 0
    situation = Situation(tuple(items), Budget(room), held=forms, kept=kept, digest_tokens=digest)
    selection = policy.select(situation)
    check(situation, selection)
    return selection


def tokens_of(items: Sequence[Candidate], selection: Selection) -> list[int]:
    """A generous count of what is kept of each folded item."""
    by_id = {item.id: item for item in items}
    return [by_id[choice.id].tokens for choice in selection.choices if choice.keep]


@pytest.mark.parametrize("policy", [Greedy(), Selector(), Greedy(OPTIONS), Selector(OPTIONS)])
def test_the_contract_is_kept(policy: Policy) -> None:
    assert check_policy(policy) == 300
    situations = [
        make_situation(runs.run(calls, seed), ceiling=ceiling)
        for seed, (calls, ceiling) in enumerate([(3, 400), (20, 2_000), (40, 6_000), (40, 0)])
    ]
    assert check_policy(policy, situations) == 4


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 12_000), st.integers(2, 41))
def test_pins_the_last_exchange_and_whole_groups(room: int, calls: int) -> None:
    items = runs.seen(RUN[: 2 * calls])
    selection = ask(Greedy(OPTIONS), items, room)
    assert [choice.id for choice in selection.choices] == [item.id for item in items]
    newest = items[-1].call
    full = 0
    for item, choice in zip(items, selection.choices, strict=True):
        if item.is_pinned or item.call == newest:
            assert choice.form is Form.FULL
        full += item.tokens if choice.form is Form.FULL else 0
    fixed = sum(item.tokens for item in items if item.is_pinned or item.call == newest)
    assert full <= max(room, fixed)
    if not selection.reason:
        return
    layout = lay_out(make_situation(items), room, OPTIONS)
    assert layout.room + full <= max(room, fixed)


def test_a_window_that_fits_is_left_alone() -> None:
    for policy in (Greedy(), Selector()):
        selection = ask(policy, RUN, 1_000_000)
        assert all(choice.form is Form.FULL for choice in selection.choices)
        assert selection.reason == ""


def test_while_it_is_not_full_the_window_only_grows() -> None:
    policy = Selector(OPTIONS)
    room = sum(item.tokens for item in RUN) // 2
    held: Selection | None = None
    rebuilds = 0
    for calls in range(4, 41):
        items = runs.seen(RUN[: 2 * calls])
        selection = ask(policy, items, room, held)
        if held is not None and not selection.reason:
            # Forms as they were; what was kept of folded items is held by the plan while the fold is the same.
            before = [(choice.id, choice.form) for choice in held.choices]
            assert [(choice.id, choice.form) for choice in selection.choices][: len(before)] == before
            assert all(choice.form is Form.FULL for choice in selection.choices[len(before) :])
        rebuilds += bool(selection.reason)
        again = ask(policy, items, room, held)
        assert (list(again.choices), again.reason) == (list(selection.choices), selection.reason)
        held = selection
    assert 1 <= rebuilds <= 12


def test_a_sticky_call_reads_nothing_that_it_knows() -> None:
    policy = Selector(OPTIONS)
    room = sum(item.tokens for item in RUN) // 2
    readings = policy._filler.histories.readings
    ask(policy, RUN[:10], room)
    assert readings.made == 0
    ask(policy, RUN, room)
    made = readings.made
    assert made == len(RUN)
    ask(policy, runs.seen(RUN), room)
    assert readings.made == made


def test_kept_segments_have_their_reason_and_score() -> None:
    selection = ask(Greedy(OPTIONS), RUN, sum(item.tokens for item in RUN) // 2)
    folded = [choice for choice in selection.choices if choice.form is Form.FOLDED]
    assert any(choice.keep for choice in folded)
    assert all(choice.reason for choice in folded)
    assert any(choice.score > 0 for choice in folded)


def test_pressure_sets_the_room() -> None:
    situation = replace(make_situation(RUN), pressure=Pressure("budget", 3_000))
    selection = Selector(OPTIONS).select(situation)
    assert any(choice.form is Form.FOLDED for choice in selection.choices)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="low must be"):
        SelectorOptions(low=1.5)
    with pytest.raises(ValueError, match="no weight table"):
        SelectorOptions(weights="Z")
