"""The ledger: what the money rules remember, and that asking again changes nothing."""

from __future__ import annotations

from policies.draft import Draft
from policies.ledger import Ledger, newest_call
from policies.testing import make_session, make_situation


def test_it_survives_the_policy_memory() -> None:
    ledger = Ledger(rent=120.5, sent=7, sent_before=5)
    assert Ledger.read(ledger.memory()) == ledger
    assert Ledger.read({}) == Ledger()


def test_the_same_list_again_changes_nothing() -> None:
    ledger = Ledger(rent=10, sent=7, sent_before=5)
    assert ledger.advance(7, 99) == ledger
    assert ledger.advance(9, 99) == Ledger(99, 9, 7)


def test_a_shorter_list_leaves_nothing_that_was_seen_once() -> None:
    assert Ledger(1, 9, 7).advance(4, 0) == Ledger(0, 4, 4)


def test_the_newest_call_counts_assistant_turns() -> None:
    assert newest_call(Draft(make_situation([]))) == 0
    assert newest_call(Draft(make_situation(make_session(7, 100)))) == 7
