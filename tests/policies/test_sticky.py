"""The default policy: grows while nothing forces, masks in batches, folds under pressure, never lifts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.contract import check
from policies.draft import digest_allowance, group_ranges
from policies.model import Candidate, Form, Pressure, PressureKind, Selection, Situation
from policies.sticky import Sticky, StickyOptions
from policies.testing import (
    check_policy,
    forms_of,
    make_candidate,
    make_session,
    make_situation,
    random_situation,
)
from proxy.config.example import example_toml

PLAIN = StickyOptions(economics=False, mask_at=20_000, keep=3, min_share=0.25)
DEFAULT = StickyOptions()


def held_after(situation: Situation, selection: Selection) -> dict[str, Form]:
    return {**situation.held, **{id: form for id, form in forms_of(selection).items() if form is not Form.FULL}}


def window_tokens(situation: Situation, selection: Selection) -> int:
    """As the contract prices it, with the digest at its full allowance."""
    pairs = list(zip(situation.candidates, selection.choices, strict=True))
    folded = [candidate for candidate, choice in pairs if choice.form is Form.FOLDED]
    digest = digest_allowance(sum(candidate.kind == "tool_result" for candidate in folded)) if folded else 0
    return sum(max(0, candidate.costs[choice.form]) for candidate, choice in pairs) + digest


def test_below_the_trigger_everything_is_in_full() -> None:
    selection = Sticky(PLAIN).select(make_situation(make_session(10, 1_000)))
    assert set(forms_of(selection).values()) == {Form.FULL}
    assert selection.reason == ""


def test_over_the_trigger_all_but_the_newest_results_become_stubs() -> None:
    candidates = make_session(24, 1_000)
    selection = Sticky(PLAIN).select(make_situation(candidates))
    results = [choice.form for c, choice in zip(candidates, selection.choices, strict=True) if c.kind == "tool_result"]
    assert results == [Form.STUB] * 21 + [Form.FULL] * 3
    assert "mask_at" in selection.reason


def test_batches_are_few_over_a_long_session() -> None:
    """A sliding mask would change something at every one of the 200 calls."""
    held: dict[str, Form] = {}
    batches = 0
    for calls in range(1, 201):
        situation = make_situation(make_session(calls, 1_000), held=held)
        selection = Sticky(PLAIN).select(situation)
        check(situation, selection)
        batches += bool(selection.reason)
        held = held_after(situation, selection)
    assert 5 <= batches <= 40


def test_a_batch_that_frees_too_little_is_not_made() -> None:
    heavy = [make_candidate(0, "user", 30_000, is_pinned=True)]
    for call in range(1, 6):
        heavy.append(make_candidate(len(heavy), "assistant", 20, group=call, call=call))
        heavy.append(make_candidate(len(heavy), "tool_result", 300, group=call, call=call))
    assert Sticky(PLAIN).select(make_situation(heavy)).reason == ""


def test_newest_results_stay_even_when_the_call_made_many() -> None:
    candidates = make_session(8, 4_000, results_per_call=4, unseen_calls=0)
    forms = forms_of(Sticky(PLAIN).select(make_situation(candidates)))
    assert [forms[c.id] for c in candidates[-5:]] == [Form.FULL] * 5
    assert forms[candidates[-6].id] is Form.STUB


@pytest.mark.parametrize("kind", ["threshold", "guard", "overflow", "budget"])
def test_pressure_brings_the_window_to_its_target(kind: PressureKind) -> None:
    situation = make_situation(make_session(60, 800, call_tokens=400), pressure=Pressure(kind, 15_000))
    selection = Sticky(PLAIN).select(situation)
    check(situation, selection)
    assert window_tokens(situation, selection) <= 15_000
    assert kind in selection.reason


def test_masks_alone_are_taken_when_they_reach_the_target() -> None:
    situation = make_situation(make_session(15, 1_000), pressure=Pressure("guard", 6_000))
    forms = set(forms_of(Sticky(PLAIN).select(situation)).values())
    assert forms == {Form.FULL, Form.STUB}


def test_a_fold_keeps_the_longest_tail_that_fits() -> None:
    situation = make_situation(make_session(60, 20, call_tokens=500), pressure=Pressure("threshold", 15_000))
    selection = Sticky(PLAIN).select(situation)
    tokens = window_tokens(situation, selection)
    assert 15_000 - 520 - 25 < tokens <= 15_000
    removed = [choice.form is Form.FOLDED for choice in selection.choices[2:]]
    assert removed == sorted(removed, reverse=True)


def test_pins_inside_the_folded_region_stay() -> None:
    candidates = list(make_session(60, 20, call_tokens=500))
    candidates[40] = replace(candidates[40], is_pinned=True)
    situation = make_situation(candidates, pressure=Pressure("threshold", 5_000))
    selection = Sticky(PLAIN).select(situation)
    check(situation, selection)
    assert selection.choices[40].form is Form.FULL
    assert selection.choices[38].form is Form.FOLDED


def test_user_messages_without_an_answer_are_never_folded() -> None:
    candidates = list(make_session(40, 20, call_tokens=500, unseen_calls=0))
    for _ in range(3):
        candidates.append(make_candidate(len(candidates), "user", 700, group=len(candidates), call=40))
    situation = make_situation(candidates, pressure=Pressure("overflow", 1_000))
    selection = Sticky(PLAIN).select(situation)
    assert [choice.form for choice in selection.choices[-5:]] == [Form.FULL] * 5
    assert selection.choices[-6].form is Form.FOLDED


def test_an_unreachable_target_is_tried_once_and_not_at_every_call() -> None:
    candidates = [make_candidate(0, "system", 50_000, is_pinned=True), *_numbered(make_session(30, 600)[1:])]
    first = make_situation(candidates, pressure=Pressure("threshold", 40_000))
    selection = Sticky(PLAIN).select(first)
    assert "folded" in selection.reason
    held = held_after(first, selection)
    more = [make_candidate(0, "system", 50_000, is_pinned=True), *_numbered(make_session(33, 600)[1:])]
    again = make_situation(more, pressure=Pressure("threshold", 40_000), held=held)
    assert Sticky(PLAIN).select(again).reason == ""


def _numbered(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    return [replace(candidate, index=index, id=f"n{index}") for index, candidate in enumerate(candidates, start=1)]


def test_what_was_folded_stays_folded_when_the_pressure_is_gone() -> None:
    situation = make_situation(make_session(60, 800), pressure=Pressure("threshold", 5_000))
    held = held_after(situation, Sticky(PLAIN).select(situation))
    later = make_situation(make_session(62, 800), held=held)
    forms = forms_of(Sticky(PLAIN).select(later))
    assert all(forms[id] <= form for id, form in held.items())


def test_a_late_result_brings_its_folded_group_back_whole() -> None:
    candidates = make_session(10, 500)
    group = [c.id for c in candidates if c.call == 3]
    held = {group[0]: Form.FOLDED}
    late = [replace(c, is_seen=c.id != group[1]) for c in candidates]
    situation = make_situation(late, held=held)
    selection = Sticky(PLAIN).select(situation)
    check(situation, selection)
    assert {forms_of(selection)[id] for id in group} == {Form.FULL}


@given(st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_properties_on_any_situation(seed: int) -> None:
    situation = random_situation(seed)
    selection = Sticky(PLAIN).select(situation)
    check(situation, selection)
    chosen = forms_of(selection)
    again = Sticky(PLAIN).select(replace(situation, held=chosen, memory=selection.memory))
    assert forms_of(again) == chosen, "the same question with the answer held gives the answer"
    for candidate in situation.candidates:
        held = situation.held.get(candidate.id, Form.FULL)
        is_whole = len(next(r for r in group_ranges(situation.candidates) if candidate.index in r)) == 1
        if is_whole and candidate.is_seen and not candidate.is_pinned and candidate.costs[held] >= 0:
            assert chosen[candidate.id] <= held, "forms only move down"


@given(st.integers(0, 10_000), st.integers(0, 60_000), st.integers(0, 60_000))
@settings(max_examples=100, deadline=None)
def test_a_larger_target_never_gives_a_window_that_misses_where_a_smaller_one_fits(
    seed: int, one: int, two: int
) -> None:
    base = replace(random_situation(seed), held={})
    small, large = sorted((one, two))
    fits = [
        window_tokens(s, Sticky(PLAIN).select(s)) <= target
        for target in (small, large)
        for s in [replace(base, pressure=Pressure("overflow", target))]
    ]
    assert fits[1] or not fits[0]


def test_conforms() -> None:
    assert check_policy(Sticky(PLAIN)) == 300


@pytest.mark.parametrize("name", ["mask_at", "keep", "min_batch", "min_share", "min_tail"])
def test_negative_options_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        StickyOptions(**{name: -1})


def windows_of(calls: int, result_tokens: int, call_tokens: int = 50) -> tuple[list[Selection], int]:
    """The default's answers over a session, and the tokens of the last window."""
    held: dict[str, Form] = {}
    memory: dict[str, float] = {}
    made: list[Selection] = []
    for count in range(1, calls + 1):
        situation = replace(
            make_situation(make_session(count, result_tokens, call_tokens=call_tokens), held=held), memory=memory
        )
        made.append(Sticky(DEFAULT).select(situation))
        check(situation, made[-1])
        held = held_after(situation, made[-1])
        memory = dict(made[-1].memory)
    return made, window_tokens(situation, made[-1])


def test_a_run_of_large_outputs_is_folded_once_or_twice() -> None:
    made, tokens = windows_of(40, 2_000)
    reasons = [selection.reason for selection in made if selection.reason]
    assert 1 <= len(reasons) <= 3 and all("folded" in reason and "rent" in reason for reason in reasons)
    assert tokens < 45_000


@pytest.mark.parametrize("kind", ["threshold", "guard", "overflow", "budget"])
def test_every_pressure_is_relieved_by_the_same_fold(kind: PressureKind) -> None:
    situation = make_situation(make_session(80, 250, call_tokens=150), pressure=Pressure(kind, 9_000))
    selection = Sticky(DEFAULT).select(situation)
    check(situation, selection)
    assert kind in selection.reason and "folded" in selection.reason
    assert window_tokens(situation, selection) <= 9_000
    assert [c.form for c in selection.choices] == [
        c.form for c in Sticky(DEFAULT).select(replace(situation, pressure=Pressure("guard", 9_000))).choices
    ]


def test_a_fold_that_must_be_takes_a_delta_along_with_its_base() -> None:
    candidates = list(make_session(80, 250, call_tokens=150))
    base, delta = (next(c for c in candidates if c.kind == "tool_result" and c.call == call) for call in (5, 78))
    candidates[delta.index] = replace(delta, costs=(0, 0, 40, 60, -1, 250), excerpt="delta", bases=(base.id,))
    held = {delta.id: Form.EXCERPT}
    situation = make_situation(candidates, held=held, pressure=Pressure("guard", 9_000))
    forms = forms_of(Sticky(DEFAULT).select(situation))
    assert forms[base.id] is Form.FOLDED and forms[delta.id] is Form.STUB


def test_a_delta_without_its_base_in_the_request_stands_in_full_again() -> None:
    candidates = list(make_session(20, 250))
    delta = next(c for c in candidates if c.kind == "tool_result" and c.call == 12)
    candidates[delta.index] = replace(delta, costs=(0, 0, 40, 60, -1, 250), excerpt="delta", bases=("gone",))
    selection = Sticky(DEFAULT).select(make_situation(candidates, held={delta.id: Form.EXCERPT}))
    assert forms_of(selection)[delta.id] is Form.FULL


def test_a_run_of_small_outputs_is_folded_once_or_twice() -> None:
    made, tokens = windows_of(120, 250, 150)
    reasons = [selection.reason for selection in made if selection.reason]
    assert 1 <= len(reasons) <= 4 and all("folded" in reason for reason in reasons)
    assert tokens < 30_000


def test_a_short_run_is_left_alone() -> None:
    assert not any(selection.reason for selection in windows_of(20, 300)[0])
    assert not any(selection.reason for selection in windows_of(4, 2_000)[0])


def test_the_reason_says_what_was_done_under_pressure() -> None:
    few = make_situation(make_session(6, 4_000), pressure=Pressure("guard", 10_000))
    selection = Sticky(PLAIN).select(few)
    assert Form.FOLDED not in forms_of(selection).values()
    assert "masked 5 results" in selection.reason and "folded" not in selection.reason
    many = make_situation(make_session(60, 20, call_tokens=500), pressure=Pressure("threshold", 15_000))
    assert "folded" in Sticky(PLAIN).select(many).reason


@given(st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_the_default_gives_the_same_answer_again(seed: int) -> None:
    situation = random_situation(seed)
    selection = Sticky(DEFAULT).select(situation)
    check(situation, selection)
    again = Sticky(DEFAULT).select(replace(situation, held=forms_of(selection), memory=selection.memory))
    assert forms_of(again) == forms_of(selection)


def test_the_default_conforms() -> None:
    assert check_policy(Sticky(DEFAULT)) == 300


def test_the_example_tomluration_tells_the_defaults() -> None:
    assert (DEFAULT.mask_at, DEFAULT.keep, DEFAULT.economics) == (32_000, 1, True)
    for told in ("mask_at = 32000", "keep = 1", "economics = true"):
        assert told in example_toml()
