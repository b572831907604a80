"""What compaction asks of a store: no late fold over newer state, one worker at a time, coverage through summaries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.core.records import Batch, ClaimRow, LinkRow, SummaryCallRow, SummaryRow
from proxy.store.base import Store
from tests.proxy.store.backends import BACKEND_PARAMS, BACKENDS, discard
from tests.proxy.store.rows import hashed, make_fold, make_items


@pytest.fixture(params=BACKEND_PARAMS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store = BACKENDS[request.param](tmp_path)
    await store.open()
    yield store
    await store.aclose()
    discard(tmp_path)


async def ids(store: Store, *, summarized: bool | None) -> str:
    return " ".join(stored.row.id for stored in await store.view("b", summarized=summarized))


async def test_a_late_fold_is_not_carried_out_over_a_newer_one(store: Store) -> None:
    """Two processes compact from the same state: the second one's rows change nothing."""
    await store.submit(Batch(items=make_items("1 2 3 4 5")))
    await store.submit(Batch(folds=(replace(make_fold("C1", ["4", "5"]), follows=""),)))
    await store.submit(Batch(folds=(replace(make_fold("L1", ["5"]), follows=""),)))
    assert await ids(store, summarized=False) == "C1 r4 r5"
    assert [fold.summary for fold in await store.folds("c")] == ["C1"]
    await store.submit(Batch(folds=(replace(make_fold("C2", ["5"], prefix="s"), follows="C1"),)))
    await store.submit(Batch(folds=(replace(make_fold("L2", []), follows="C1"),)))
    assert await ids(store, summarized=False) == "C2 s5"
    assert [(fold.summary, fold.follows) for fold in await store.folds("c")] == [("C1", ""), ("C2", "C1")]


async def test_a_reply_in_the_same_transaction_comes_after_the_fold(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2 3")))
    await store.submit(Batch(items=make_items("4"), folds=(make_fold("C1", ["4"]),), replies=make_items("5")))
    assert await ids(store, summarized=False) == "C1 r4 5"
    assert await ids(store, summarized=True) == "1 2 3 4"


async def test_the_first_claim_holds_until_its_time_is_over(store: Store) -> None:
    await store.submit(Batch(claims=(ClaimRow("work", "one", 100.0, 160.0),)))
    await store.submit(Batch(claims=(ClaimRow("work", "two", 130.0, 190.0),)))
    assert await store.claim("work") == ("one", 160.0)
    await store.submit(Batch(claims=(ClaimRow("work", "one", 150.0, 150.0),)))  # given back
    await store.submit(Batch(claims=(ClaimRow("work", "two", 151.0, 200.0),)))
    assert await store.claim("work") == ("two", 200.0)
    assert await store.claim("other") is None


async def test_coverage_goes_through_summaries_of_segments(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2 3 4 5")))
    rows = (
        SummaryRow("k1", "c", "S1", hashed(b"s"), "digest", ("1", "2"), 20),
        SummaryRow("k2", "c", "C1", hashed(b"t"), "digest", ("S1", "4", "3"), 20),
        SummaryRow("k3", "c", "C2", hashed(b"t"), "digest", ("S1", "S2"), 20),
    )
    await store.submit(Batch(summaries=rows, links=(LinkRow("c", "S2", "5", "summarizes"),)))
    assert await store.coverage("c", "C1") == ("1", "2", "3", "4")
    assert await store.coverage("c", "S1") == ("1", "2")
    assert set(await store.coverage("c", "C2")) >= {"1", "2"}


async def test_a_summary_that_names_itself_ends(store: Store) -> None:
    await store.submit(Batch(summaries=(SummaryRow("k", "c", "C1", hashed(b"t"), "digest", ("C1", "1"), 20),)))
    assert await store.coverage("c", "C1") == ("1",)


async def test_summary_calls_are_told_as_they_were(store: Store) -> None:
    call = SummaryCallRow(
        "x1", "c", "b", "k1", "upstream", "small", "rejected", "empty", 900, 100, 5, 0.01, 12.5, "2026"
    )
    await store.submit(Batch(summary_calls=(call, replace(call, id="x2", conversation="d"))))
    await store.submit(Batch(summary_calls=(replace(call, outcome="ok"),)))
    assert await store.summary_calls("c") == [call]
    assert [one.id for one in await store.summary_calls()] == ["x1", "x2"]
