"""What counts as a receipt, and how much."""

from __future__ import annotations

from dataclasses import replace

from proxy.core.branches import BranchView
from proxy.core.evidence import Fit, hold
from proxy.core.identity import Path, emitted, hash_head, probe, steps_of
from proxy.core.model import Element, Hints
from tests.support.talks import assistant, conversation, result, system, user

S, U = system("S"), user("Which blade?")
ID = "call_7fK2pQ9xZ1aa"
CALL, ANSWER = assistant(None, (ID, "look", "{}")), assistant("Blade 14 fits the mower.")


def held(asked: list[Element], reply: list[Element], scope: str = "", other_scope: str = "", head: str = "S") -> Fit:
    path = Path([*steps_of([U]), *emitted(reply)])
    view = BranchView("b", "t", "c", scope=other_scope, head_hash=hash_head(head), path=path, sent=1)
    return hold(probe(conversation(asked, tools=b"", hints=Hints(scope=scope)), "t"), view)


def test_a_call_id_is_a_receipt_across_scopes_and_a_text_is_not() -> None:
    assert held([S, U, CALL, result(ID, "x")], [CALL], "a", "b").receipts == 1
    assert held([S, U, ANSWER, user("More")], [ANSWER], "a", "b").receipts == 0
    assert held([S, U, ANSWER, user("More")], [ANSWER], "a", "a").receipts >= 1


def test_a_short_text_counts_only_as_part_of_the_whole_path() -> None:
    assert held([S, U, assistant("Yes."), user("More")], [assistant("Yes.")]).receipts == 1
    assert held([S, user("Other"), assistant("Yes."), user("More")], [assistant("Yes.")]).receipts == 0


def test_a_common_reply_to_another_question_is_not_enough() -> None:
    fit = held([S, user("Other question"), ANSWER, user("More")], [ANSWER])
    assert 0 < fit.receipts < 1 and not fit.has_last
    moved = held([S, user("A block in front"), U, ANSWER, user("More")], [ANSWER])
    assert moved.receipts >= 1 and moved.has_last


def test_texts_weigh_little_beside_calls() -> None:
    other = assistant(None, ("call_8Gh3rT5yW2bb", "look", "{}"))
    fit = held([S, user("Other"), ANSWER, other, result("call_8Gh3rT5yW2bb", "x")], [ANSWER])
    assert fit.receipts < 0.5


def test_a_repeated_text_is_the_latest_reply_only_behind_what_is_shared() -> None:
    steps = [*steps_of([U]), *emitted([ANSWER]), *steps_of([user("Again?")]), *emitted([ANSWER])]
    view = BranchView("b", "t", "c", head_hash=hash_head("S"), path=Path(steps), sent=3)
    again = hold(probe(conversation([S, U, ANSWER, user("Again?")], tools=b""), "t"), view)
    assert not again.has_last and again.is_repeat and again.is_rerun
    onward = hold(probe(conversation([S, U, ANSWER, user("Again?"), ANSWER, user("More")], tools=b""), "t"), view)
    assert onward.has_last and not onward.is_repeat


def test_the_latest_reply_outranks_many_old_ones_and_a_side_call_needs_its_own_head() -> None:
    fit = held([S, U, ANSWER, user("More")], [ANSWER])
    assert replace(fit, has_last=True, receipts=1).rank > replace(fit, has_last=False, receipts=9).rank
    side = replace(fit, view=replace(fit.view, kind="side"))
    assert replace(side, head=0, receipts=9).rank < fit.rank < replace(side, receipts=9).rank


def test_a_head_counts_by_itself_and_by_its_stem() -> None:
    asked = [S, U, ANSWER]
    assert [held(asked, [ANSWER], head=head).head for head in ("S", "S 12", "Other")] == [2, 0, 0]
    clock = [system("It is 10:41."), U, ANSWER]
    assert held(clock, [ANSWER], head="It is 10:42.").head == 1
