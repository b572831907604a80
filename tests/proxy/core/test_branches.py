"""The index of live branches, and how a branch moves on."""

from __future__ import annotations

from proxy.core.branches import BranchIndex, BranchView, finish
from proxy.core.identity import Path, emitted, probe, steps_of
from proxy.core.receipts import keys
from tests.support.talks import Desk, assistant, conversation, user


def view(name: str, *texts: str, tenant: str = "t", parent: str = "", tick: int = 0, scope: str = "") -> BranchView:
    steps = steps_of([user(text) for text in texts])
    return BranchView(name, tenant, "c", parent=parent, scope=scope, path=Path(steps), sent=len(steps), tick=tick)


def asked(*texts: str) -> list[tuple[str, bytes]]:
    return list(keys(probe(conversation([user(text) for text in texts]), "t")))


def test_the_best_match_comes_first_and_brings_its_parent() -> None:
    index = BranchIndex()
    index.put(view("parent", "something else"))
    index.put(view("far", "one"))
    index.put(view("near", "one", "two", parent="parent"))
    found = index.candidates("t", asked("one", "two", "three"))
    assert {found[0].id, found[1].id} == {"far", "near"} and found[-1].id == "parent"


def test_a_newer_state_replaces_the_old_one() -> None:
    index = BranchIndex()
    index.put(view("a", "one"))
    index.put(view("a", "one", "two", tick=1))
    assert len(index) == 1 and len(index.candidates("t", asked("one", "two"))) == 1
    assert index.candidates("t", asked("one"))[0].tick == 1


def test_a_scope_alone_finds_its_branches() -> None:
    index = BranchIndex()
    index.put(view("a", "one", scope="session:1"))
    assert [found.id for found in index.candidates("t", (), "session:1")] == ["a"]
    assert index.candidates("t", (), "session:2") == []


def test_tenants_do_not_see_each_other() -> None:
    index = BranchIndex()
    index.put(view("a", "one", tenant="ours"))
    assert index.candidates("theirs", asked("one")) == [] and index.get("theirs", "a") is None
    assert len(index.candidates("ours", asked("one"))) == 1


def test_the_oldest_leave_when_the_bound_is_reached_and_take_their_keys_along() -> None:
    index = BranchIndex(max_bytes=20_000)
    for n in range(100):
        index.put(view(f"b{n}", f"words {n}"))
    assert index.size_bytes <= 20_000 and 0 < len(index) < 10
    assert index.candidates("t", asked("words 0")) == []
    assert [found.id for found in index.candidates("t", asked("words 99"))] == ["b99"]


def test_one_branch_larger_than_the_bound_stays() -> None:
    index = BranchIndex(max_bytes=10)
    index.put(view("a", "one"))
    assert len(index) == 1


def test_a_key_shared_by_very_many_leads_to_the_newest() -> None:
    index = BranchIndex()
    for n in range(200):
        index.put(view(f"b{n}", "hello", tick=n))
    found = index.candidates("t", asked("hello"), limit=32)
    assert [v.id for v in found] == [f"b{n}" for n in range(199, 167, -1)]


def test_a_second_reply_replaces_the_first() -> None:
    desk = Desk()
    placed = desk.ask([user("Hello")], [assistant("half of an")], outcome="cancelled")
    done = finish(desk.view(placed), emitted([assistant("A whole answer.")]), "ok", 9)
    assert [step.text for step in done.path.steps] == ["Hello", "A whole answer."]
    assert done.outcome == "ok" and [step.is_emitted for step in done.reply] == [True]
