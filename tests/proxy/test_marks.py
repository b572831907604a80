"""Marks are read when a conversation is met and when what was read is old; a store in trouble takes nothing away."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from proxy import marks
from proxy.core.records import MarkRow
from proxy.errors import StoreError
from proxy.marks import MarkBook, Said, said_of
from proxy.store.null import NullStore


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Marked(NullStore):
    rows: list[MarkRow] = field(default_factory=list)
    reads: int = 0
    is_down: bool = False
    hangs: bool = False

    async def marks(self, conversation: str) -> list[MarkRow]:
        self.reads += 1
        if self.is_down:
            raise StoreError("disk gone")
        if self.hangs:
            await asyncio.Event().wait()
        return [row for row in self.rows if row.conversation == conversation]


def pin(item: str, value: str = "1") -> MarkRow:
    return MarkRow("c", item, "pin", value)


def test_the_newest_word_on_an_item_counts_and_other_marks_do_not() -> None:
    said = said_of([pin("a"), pin("b", "0"), MarkRow("c", "a", "importance", "2.5"), MarkRow("c", "", "plan:x", "1")])
    assert said == Said(frozenset({"a"}), {"a": 2.5})


def test_importance_adds_to_what_is_known_besides() -> None:
    said = Said(importance={"a": 2.0})
    assert said.importance_with({"a": 1.0, "b": 3.0}) == {"a": 3.0, "b": 3.0}
    assert said.importance_with({}) == {"a": 2.0}
    assert Said().importance_with({"b": 3.0}) == {"b": 3.0}


async def test_a_busy_conversation_costs_no_read_a_request() -> None:
    store, clock = Marked(), Clock()
    book = MarkBook(store, clock=clock)
    first = await book.of("c")
    store.rows = [pin("a")]
    assert await book.of("c") is first
    assert store.reads == 1
    clock.now += marks.FRESH_S
    assert (await book.of("c")).pinned == {"a"}
    held = await book.of("c")
    clock.now += marks.FRESH_S
    assert await book.of("c") is held  # the same again is the same object
    assert store.reads == 3


async def test_a_conversation_that_begins_is_not_looked_up() -> None:
    store, clock = Marked(rows=[pin("a")]), Clock()
    book = MarkBook(store, clock=clock)
    assert await book.of("c", is_new=True) == Said()
    assert store.reads == 0
    clock.now += marks.FRESH_S
    assert (await book.of("c")).pinned == {"a"}


async def test_a_store_in_trouble_takes_nothing_away_and_is_left_alone(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(marks, "WAIT_S", 0.01)
    store, clock = Marked(rows=[pin("a")]), Clock()
    book = MarkBook(store, clock=clock)
    await book.of("c")
    for trouble in ("is_down", "hangs"):
        setattr(store, trouble, True)
        clock.now += marks.REST_S
        reads = store.reads
        assert (await book.of("c")).pinned == {"a"}
        clock.now += marks.FRESH_S
        assert (await book.of("c")).pinned == {"a"}
        assert store.reads == reads + 1
        setattr(store, trouble, False)


async def test_what_is_kept_is_bounded(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(marks, "KEPT", 2)
    store = Marked()
    book = MarkBook(store, clock=Clock())
    for name in ("a", "b", "c", "b", "a"):
        await book.of(name)
    assert store.reads == 4
