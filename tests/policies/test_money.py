"""Rent and folds on a draft: when a fold comes, what it takes, what it leaves, what it remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies import money
from policies.ageing import WordIndex
from policies.draft import Draft
from policies.economics import EconomicsOptions
from policies.filling import Filler
from policies.ledger import Ledger
from policies.model import Candidate, Form, Prices, Situation
from policies.money import fold_when_due, foldable_groups, keep_best, keep_room, tail_start, weighed_from
from policies.scoring import Weights
from policies.testing import make_candidate, make_session, make_situation

OPTIONS = EconomicsOptions()
FILLER = Filler(Weights.make())
LONG = make_session(80, 250, call_tokens=150)
"""400 tokens a call, as coding runs have."""


def folded(draft: Draft) -> list[int]:
    return [index for index, form in enumerate(draft.forms) if form is Form.FOLDED]


def due(
    situation: Situation, ledger: Ledger | None = None, options: EconomicsOptions = OPTIONS
) -> tuple[Draft, str, float]:
    draft = Draft(situation)
    reason, rent = fold_when_due(draft, ledger or Ledger(), options, WordIndex(), FILLER)
    return draft, reason, rent


def test_the_same_list_again_pays_no_rent_again() -> None:
    _, _, rent = due(make_situation(LONG), Ledger(rent=10, sent=len(LONG)))
    assert rent == 10


def test_rent_adds_up_call_by_call_until_it_is_due() -> None:
    memory, folds = Ledger(), []
    for calls in range(1, 81):
        draft, reason, rent = due(make_situation(make_session(calls, 250, call_tokens=150)), memory)
        folds += [calls] if reason else []
        memory = memory.advance(len(draft.candidates), rent)
        if reason:
            break
    assert len(folds) == 1 and 30 < folds[0] < 80
    assert memory.rent == 0, "a fold starts the account anew"


def test_a_fold_takes_everything_before_the_tail_but_pins() -> None:
    draft, reason, _ = due(make_situation(LONG), Ledger(rent=1_000_000))
    tail = tail_start(draft, OPTIONS)
    assert folded(draft) == list(range(2, tail))
    assert "folded" in reason and "rent" in reason


def test_a_fold_waits_for_its_rent() -> None:
    draft, reason, rent = due(make_situation(LONG))
    assert not folded(draft) and reason == "" and rent > 0


def test_a_cold_cache_makes_the_fold_free() -> None:
    draft, reason, rent = due(make_situation(LONG, is_cold=True))
    assert folded(draft) and "cold" in reason and rent == 0


def test_small_windows_are_left_alone() -> None:
    small = make_session(20, 250, call_tokens=150)
    draft, reason, _ = due(make_situation(small, is_cold=True), Ledger(rent=1_000_000))
    assert draft.tokens < OPTIONS.small and reason == "" and not folded(draft)


def test_a_young_run_does_not_fold_for_a_gain_that_comes_late() -> None:
    heavy_tail = [*LONG[:56], *(replace(c, costs=(0, 0, 40, -1, -1, 10_000)) for c in LONG[56:62])]
    young = make_situation(heavy_tail)
    assert due(young, Ledger(rent=1_000_000))[1] == ""
    assert due(young, Ledger(rent=1_000_000), replace(OPTIONS, prudence=0.0, break_share=1.0))[1] != ""


def test_no_fold_whose_break_is_a_large_part_of_the_bill_so_far() -> None:
    patient = replace(OPTIONS, prudence=0.0)
    heavy_tail = [*LONG[:56], *(replace(c, costs=(0, 0, 40, -1, -1, 10_000)) for c in LONG[56:62])]
    assert due(make_situation(heavy_tail), Ledger(rent=1_000_000), patient)[1] == ""


def test_behind_the_clients_own_change_a_fold_is_free() -> None:
    draft, reason, rent = due(make_situation(LONG, free_from=2))
    assert folded(draft) and "client's own change at 2" in reason and rent == 0
    draft, reason, rent = due(make_situation(LONG, free_from=len(LONG) - 4))
    assert not folded(draft) and reason == "" and rent > 0


def test_where_cached_reads_are_free_no_fold_comes() -> None:
    situation = replace(make_situation(LONG), prices=Prices(cached=0.0))
    assert due(situation)[1:] == ("", 0.0)


def test_user_messages_are_never_folded_by_rent() -> None:
    candidates = list(LONG)
    candidates[20] = make_candidate(20, "user", 300, group=candidates[20].group + 1_000, call=candidates[20].call)
    draft, reason, _ = due(make_situation(candidates), Ledger(rent=1_000_000))
    assert reason and draft.forms[20] is Form.FULL


def test_a_group_that_a_recent_action_named_stays() -> None:
    candidates: list[Candidate] = list(LONG)
    candidates[11] = replace(candidates[11], text="def raise_sluice_12(): ...")
    candidates[-6] = replace(candidates[-6], text="edit raise_sluice_12")
    assert candidates[-6].kind == "assistant"
    draft, reason, _ = due(make_situation(candidates), Ledger(rent=1_000_000))
    kept = [c.index for c in candidates if c.group == candidates[11].group]
    assert reason and all(draft.forms[index] is Form.FULL for index in kept)
    assert draft.forms[kept[0] - 1] is Form.FOLDED and draft.forms[kept[-1] + 1] is Form.FOLDED


def test_too_little_before_the_tail_is_not_worth_a_look() -> None:
    assert foldable_groups(Draft(make_situation(make_session(6, 250))), OPTIONS, WordIndex()) == []


@pytest.mark.parametrize(("result_tokens", "calls_kept"), [(50, 10), (250, 10), (600, 6), (8_000, 3)])
def test_the_tail_is_bounded_by_calls_and_tokens(result_tokens: int, calls_kept: int) -> None:
    draft = Draft(make_situation(make_session(30, result_tokens)))
    first = draft.candidates[tail_start(draft, OPTIONS)]
    assert first.call == 30 - calls_kept + 1


def test_lines_that_report_errors_stay_when_their_results_are_folded() -> None:
    candidates = list(LONG)
    log = "\n".join([*(f"INFO tide {n}" for n in range(40)), "2026-04-02 ERROR sluice 9 stuck", "INFO end"])
    candidates[11] = replace(candidates[11], kind="tool_result", tool="read_log", text=log)
    draft, reason, _ = due(make_situation(candidates), Ledger(rent=1_000_000))
    assert reason and draft.forms[11] is Form.FOLDED
    choice = draft.finish(reason).choices[11]
    assert 40 in choice.keep


def test_what_is_read_for_the_lines_to_keep_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart nothing of the list has been read yet."""
    monkeypatch.setattr(money, "READ_CHARS", 3_000)
    candidates = [replace(c, text=f"tide {c.index} " * 60) for c in LONG]
    draft = Draft(make_situation(candidates))
    start = weighed_from(draft)
    assert 0 < start < len(candidates) and sum(len(c.text) for c in candidates[start:]) <= 3_000
    filler = Filler(Weights.make())
    for group in draft.groups()[2:-2]:
        draft.fold(group, "")
    keep_best(draft, 300, filler)
    assert len(filler.histories.of(draft.candidates[start:])) == len(candidates) - start
    assert draft.keep and all(index >= start for index in draft.keep)


def test_what_is_kept_of_a_fold_fits_its_room() -> None:
    draft, _, _ = due(make_situation(LONG), Ledger(rent=1_000_000))
    folded = [c for c, form in zip(draft.candidates, draft.forms, strict=True) if form is Form.FOLDED]
    room = keep_room(sum(c.tokens for c in folded), OPTIONS)
    assert 0 < room <= OPTIONS.keep_limit
    keep_best(draft, 0, FILLER)
    assert draft.keep == {}, "without room, and without errors, nothing stays"


def test_a_base_of_a_delta_that_stays_is_not_folded() -> None:
    candidates = list(LONG)
    base, delta = candidates[11], candidates[-6 if candidates[-6].kind == "tool_result" else -7]
    assert base.kind == delta.kind == "tool_result"
    candidates[delta.index] = replace(delta, costs=(0, 0, 40, 60, -1, 250), excerpt="delta", bases=(base.id,))
    situation = make_situation(candidates, held={delta.id: Form.EXCERPT})
    draft, reason, _ = due(situation, Ledger(rent=1_000_000))
    assert reason and draft.forms[base.index] is Form.FULL and draft.forms[delta.index] is Form.EXCERPT
