"""Where the client's own change ended the cache of the last window."""

from __future__ import annotations

from policies.model import Form
from proxy.core.caching import client_break, is_break
from proxy.core.records import Entry
from proxy.core.window import EMPTY, Fold, Plan

SENT = ["s", "u", "a1", "r1", "a2", "r2"]


def entries(*items: str) -> tuple[Entry, ...]:
    return tuple(Entry(item, int(Form.FULL), item.encode(), 10, "") for item in items)


def test_what_was_sent_once_is_no_break() -> None:
    assert not is_break(-1, 4)
    assert is_break(0, 4) and is_break(3, 4)
    assert not is_break(4, 4) and not is_break(6, 4)


def test_a_list_that_only_grew_has_no_break() -> None:
    assert client_break(entries(*SENT), EMPTY, [*SENT, "a3", "r3"], SENT) is None
    assert client_break(entries(*SENT), EMPTY, SENT, SENT) is None
    assert client_break((), EMPTY, SENT, SENT) is None


def test_what_was_taken_out_or_edited_frees_what_stands_behind_it() -> None:
    assert client_break(entries(*SENT), EMPTY, ["s", "u", "a2", "r2", "a3"], SENT) == 2
    assert client_break(entries(*SENT), EMPTY, ["s", "u", "a1", "cut", "a2", "r2", "a3"], SENT) == 3
    assert client_break(entries(*SENT), EMPTY, ["other", *SENT[1:]], SENT) == 0


def test_a_change_with_nothing_old_behind_it_frees_nothing() -> None:
    assert client_break(entries(*SENT), EMPTY, [*SENT[:-1], "other", "a3"], SENT) is None


def test_a_fold_stands_for_what_it_covers() -> None:
    plan = Plan(fold=Fold(("a1", "r1"), "digest", "what happened", ""))
    window = entries("s", "u", "digest", "a2", "r2")
    assert client_break(window, plan, [*SENT, "a3"], SENT) is None
    assert client_break(window, plan, ["s", "u", "a1", "r1", "r2", "a3"], SENT) == 4
    assert client_break(window, EMPTY, ["s", "u", "r1", "a2", "r2"], SENT) == 2, "the fold does not hold any more"


def test_what_the_window_did_not_show_is_no_change() -> None:
    assert client_break(entries("s", "u", "a2", "r2"), EMPTY, [*SENT, "a3"], SENT, {"a1", "r1"}) is None
