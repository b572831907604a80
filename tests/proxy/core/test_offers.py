"""What makers of shorter forms are told and say: values with the defaults that offer nothing."""

from __future__ import annotations

from proxy.core.offers import Listed, Note
from tests.support import talks


def test_a_note_says_nothing_unless_it_is_told_to() -> None:
    assert Note() == Note(offer=None, cites=(), stale=())


def test_what_is_listed_may_answer_no_call() -> None:
    listed = Listed("i0", 0, talks.user("hello"))
    assert listed.call is None and listed.argument == ""
