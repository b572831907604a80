"""What is in the store counts; what is under way is waited for, a little."""

from __future__ import annotations

import asyncio
from pathlib import Path

from proxy.core.records import Batch, BodyRow, SummaryRow
from proxy.core.window import Fold
from proxy.folding import Folded, FoldSource, Part
from proxy.store.open import open_store
from proxy.summaries.base import Caller, Draft, Material
from proxy.summaries.book import SummaryBook


class Scribe:
    name = "scribe"
    version = "1"
    seals = False

    async def summarize(self, material: Material, caller: Caller) -> Draft:
        return Draft("never asked here")


def folded(*segments: str) -> Folded:
    parts = tuple(Part(f"p{i}", (f"i{i}",), range(i, i + 1), True, name) for i, name in enumerate(segments))
    return Folded(Fold((), "f", "text"), parts, FoldSource("c", (), (), 100))


def row(book: SummaryBook, segment: str, text: str) -> Batch:
    body = BodyRow(segment.encode().ljust(16, b"-"), text.encode())
    summary = SummaryRow(book.key(segment), "c", segment, body.hash, "scribe", ("i0",), 3)
    return Batch(bodies=(body,), summaries=(summary,))


async def test_found_in_the_store_and_by_this_summarizer_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path / "x.db")
    await store.open()
    book = SummaryBook(store, Scribe())
    assert await book.find(["s1"]) == {}
    await store.submit(row(book, "s1", "first"))
    assert await book.find(["s1", "s2"]) == {"s1": "first"}
    assert await book.of_fold(folded("s1", ""), "c") == ({"s1": "first"}, True)
    assert await book.of_fold(folded("s1", "s2"), "c") == ({"s1": "first"}, False)
    other = Scribe()
    other.version = "2"
    assert await SummaryBook(store, other).find(["s1"]) == {}
    await store.aclose()


async def test_a_turn_waits_for_work_that_is_under_way(tmp_path: Path) -> None:
    store = open_store(tmp_path / "x.db")
    await store.open()
    book = SummaryBook(store, Scribe(), wait_s=20.0)
    assert book.begin("c") and not book.begin("c")
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(book.of_fold(folded("s1"), "c"))
        await store.submit(row(book, "s1", "first"))
        book.end("c")
    assert waiting.result() == ({"s1": "first"}, True)
    await store.aclose()


async def test_it_does_not_wait_for_ever(tmp_path: Path) -> None:
    store = open_store(tmp_path / "x.db")
    await store.open()
    book = SummaryBook(store, Scribe(), wait_s=0.01)
    book.begin("c")
    assert await book.of_fold(folded("s1"), "c") == ({}, False)
    await store.aclose()
    assert await book.find(["s1"]) == {}  # a closed store is a store that has nothing
