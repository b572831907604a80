"""One suite over every backend: what a Store promises, asked through the protocol alone."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.core.records import (
    ArrivalRow,
    Batch,
    BodyRow,
    ClientKeyRow,
    KeyRow,
    LearnedRow,
    LinkRow,
    PlanRow,
    Spent,
    StoredItem,
    SummaryCallRow,
    SummaryRow,
    TenantUsage,
)
from proxy.errors import StoreError
from proxy.store.base import Store
from tests.proxy.store.backends import BACKEND_PARAMS, BACKENDS, HERE, discard
from tests.proxy.store.rows import (
    hashed,
    make_branch,
    make_entry,
    make_exchange,
    make_fold,
    make_item,
    make_items,
    make_outcome,
    make_path,
    make_window,
)


@pytest.fixture(params=BACKEND_PARAMS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store = BACKENDS[request.param](tmp_path)
    await store.open()
    yield store
    await store.aclose()
    discard(tmp_path)


async def transcript(store: Store, conversation: str = "c", branch: str | None = None) -> list[StoredItem]:
    return [stored async for stored in await store.transcript(conversation, branch=branch)]


async def ids(store: Store, *, summarized: bool | None, branch: str = "b") -> str:
    return " ".join(stored.row.id for stored in await store.view(branch, summarized=summarized))


# -- bodies and items ----------------------------------------------------------------------------
@pytest.mark.parametrize("data", [b"", b"x", b"\x00\x01\xff" * 700_000, b'{"a":  1.0}' * 50, bytes(range(256)) * 9000])
async def test_a_body_comes_back_byte_for_byte(store: Store, data: bytes) -> None:
    await store.submit(Batch(bodies=(BodyRow(hashed(data), data),)))
    assert await store.body(hashed(data)) == data
    assert await store.body(b"unknown") is None


async def test_items_come_back_whole_and_in_the_order_asked(store: Store) -> None:
    rich = replace(
        make_item("2", text="a \ud83d lone surrogate, é, 漢字 and \x00"),
        kind="tool_result",
        role="tool",
        call_id="call_9",
        source="src/a.py",
        group="g1",
        is_pinned=True,
        importance=0.25,
        exchange="e1",
        atoms=b"\x00" * 5000,
    )
    await store.submit(Batch(items=(make_item("1"), rich, make_item("3"))))
    found = await store.items("c", ["3", "nowhere", "2", "1"])
    assert [stored.row.id for stored in found] == ["3", "2", "1"]
    assert found[1].row == rich
    assert found[1].seq == 2
    assert await store.items("another", ["1"]) == []
    assert await store.find_item("2") == [rich]


async def test_thousands_of_items_are_found_at_once(store: Store) -> None:
    names = [f"i{number}" for number in range(3000)]
    await store.submit(Batch(items=tuple(make_item(name) for name in names)))
    found = await store.items("c", names[::-1])
    assert [stored.row.id for stored in found] == names[::-1]


async def test_an_item_is_kept_once_in_the_transcript_and_once_in_each_view(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2 2")))
    await store.submit(Batch(items=make_items("1 2 3")))
    await store.submit(Batch(items=make_items("1 2 4", branch="fork")))
    await store.submit(Batch(items=make_items("1", conversation="d", branch="of-d")))
    assert [stored.row.id for stored in await transcript(store)] == ["1", "2", "3", "4"]
    assert await ids(store, summarized=None) == "1 2 3"
    assert await ids(store, summarized=False, branch="fork") == "1 2 4"
    assert await ids(store, summarized=False, branch="of-d") == "1"


async def test_the_transcript_brings_bodies_in_the_stores_own_order(store: Store) -> None:
    late_first = [replace(make_item(f"{n}"), created_at=f"2026-01-01T00:00:{59 - n:02}.000000Z") for n in range(9)]
    bodies = tuple(BodyRow(item.body, f"body {item.id}".encode() * 100_000) for item in late_first)
    for item in late_first:
        await store.submit(Batch(items=(item,)))
    await store.submit(Batch(bodies=bodies))
    rows = await transcript(store)
    assert [stored.row.id for stored in rows] == [item.id for item in late_first]
    assert [stored.data for stored in rows] == [body.data for body in bodies]
    assert [stored.seq for stored in rows] == sorted(stored.seq for stored in rows)


async def test_a_branchs_transcript_holds_what_it_shares_too(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2 3")))
    await store.submit(Batch(items=make_items("1 4", branch="fork")))
    assert [stored.row.id for stored in await transcript(store, branch="fork")] == ["1", "4"]


# -- one flag, two views -------------------------------------------------------------------------
@pytest.mark.parametrize("prefix", ["r", ""], ids=["fresh ids", "same ids"])
async def test_folds_leave_exactly_the_two_views(store: Store, prefix: str) -> None:
    def shown(names: str) -> str:
        return names if prefix else names.replace("r", "")

    await store.submit(Batch(items=make_items("1 2 3 4 5 6 7 8")))
    await store.submit(Batch(folds=(make_fold("C1", ["7", "8"], prefix=prefix),)))
    assert await ids(store, summarized=False) == shown("C1 r7 r8")
    assert await ids(store, summarized=True) == "1 2 3 4 5 6 7 8"

    await store.submit(Batch(items=make_items("9 10")))
    assert await ids(store, summarized=False) == shown("C1 r7 r8 9 10")

    await store.submit(Batch(folds=(make_fold("C2", ["10"], prefix=prefix),)))
    assert await ids(store, summarized=False) == shown("C2 r10")
    assert await ids(store, summarized=True) == shown("1 2 3 4 5 6 7 8 C1 r7 r8 9 10")
    assert await ids(store, summarized=None) == shown("1 2 3 4 5 6 7 8 C1 r7 r8 9 10 C2 r10")

    originals = [stored.row.id for stored in await transcript(store)]
    assert originals == ["1", "2", "3", "4", "5", "6", "7", "8", "C1", "9", "10", "C2"]


async def test_a_reinserted_row_shows_its_original(store: Store) -> None:
    await store.submit(Batch(items=(replace(make_item("1", text="the words"), call_id="call_1"),)))
    await store.submit(Batch(folds=(make_fold("C1", ["1"]),)))
    summary, fresh = await store.view("b", summarized=False)
    assert (summary.row.id, summary.row.origin, summary.row.kind) == ("C1", "", "summary")
    assert (fresh.row.id, fresh.row.origin, fresh.row.text, fresh.row.call_id) == ("r1", "1", "the words", "call_1")
    assert [row.is_summarized for row in await store.view("b")] == [True, False, False]


async def test_a_row_reinserted_twice_still_names_the_first(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2")))
    await store.submit(Batch(folds=(make_fold("C1", ["2"]),)))
    again = make_fold("C2", [])
    again = replace(again, fresh=(*again.fresh, make_item("rr2", origin="r2")))
    await store.submit(Batch(folds=(again,)))
    assert [(s.row.id, s.row.origin) for s in await store.view("b", summarized=False)] == [("C2", ""), ("rr2", "2")]
    assert [stored.row.id for stored in await transcript(store)] == ["1", "2", "C1", "C2"]


async def test_a_fork_has_its_own_view(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2 3 4")))
    await store.submit(Batch(folds=(make_fold("C1", ["4"]),)))
    await store.submit(Batch(items=make_items("1 2 5", branch="fork")))
    assert await ids(store, summarized=False, branch="fork") == "1 2 5"
    await store.submit(Batch(folds=(make_fold("C9", ["5"], branch="fork"),)))
    assert await ids(store, summarized=False, branch="fork") == "C9 r5"
    assert await ids(store, summarized=False) == "C1 r4"


async def test_an_item_in_the_archive_does_not_come_back_by_being_sent_again(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2")))
    await store.submit(Batch(folds=(make_fold("C1", []),)))
    await store.submit(Batch(items=make_items("1 2 3")))
    assert await ids(store, summarized=False) == "C1 3"


async def test_folds_are_told_as_they_were(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2")))
    fold = make_fold("C1", ["2"])
    await store.submit(Batch(folds=(fold,)))
    (told,) = await store.folds("c")
    assert [(item.id, item.origin) for item in told.fresh] == [("C1", ""), ("r2", "2")]
    assert replace(told, fresh=()) == replace(fold, fresh=())
    assert await store.folds("d") == []


# -- branches ------------------------------------------------------------------------------------
async def test_what_a_branch_begins_with_is_in_its_view_once(store: Store) -> None:
    """By id alone: the rows are its parent's. However often it is submitted, and beside items of its own."""
    await store.submit(Batch(items=make_items("m1 m2 m3")))
    begun = ArrivalRow("fork", "c", ("m1", "m3", "m4"), frozenset({"m1"}))
    own = make_items("m4", branch="fork")
    await store.submit(Batch(arrivals=(begun,), items=own))
    await store.submit(Batch(arrivals=(replace(begun, items=("m2", *begun.items)),), items=own))
    assert await ids(store, summarized=False, branch="fork") == "m1 m3 m4 m2"
    assert [stored.row.is_pinned for stored in await store.view("fork")] == [True, False, False, False]
    assert [stored.row.id for stored in await transcript(store)] == ["m1", "m2", "m3", "m4"]


async def test_the_higher_version_of_a_branch_wins(store: Store) -> None:
    await store.submit(Batch(branches=(make_branch("b", version=5, path="p5"),)))
    await store.submit(Batch(branches=(make_branch("b", version=4, path="p4"),)))
    await store.submit(Batch(branches=(make_branch("b", version=5, path="other"),)))
    found = await store.branch("b")
    assert found is not None and found.path == "p5"
    await store.submit(Batch(branches=(make_branch("b", version=6, path="p6"),)))
    assert [branch.path for branch in await store.branches("c")] == ["p6"]
    assert await store.branch("nowhere") is None


async def test_receipts_lead_to_branches_by_matches_then_scope_then_parents(store: Store) -> None:
    for name, options in {
        "parent": {},
        "one": {"parent": "parent", "parent_kind": "fork"},
        "two": {},
        "old": {"scope": "s"},
        "new": {"scope": "s"},
        "elsewhere": {"scope": "s2"},
    }.items():
        await store.submit(Batch(branches=(make_branch(name, **options),)))
    await store.submit(Batch(branches=(make_branch("foreign", tenant="other", scope="s"),)))
    keys = [("node", b"n1"), ("call", b"c1"), ("call", b"n1")]
    pairs = [("one", keys[0]), ("two", keys[0]), ("two", keys[1]), ("elsewhere", keys[2])]
    await store.submit(Batch(keys=tuple(KeyRow("t", kind, key, branch) for branch, (kind, key) in pairs)))
    await store.submit(Batch(keys=(KeyRow("other", "node", b"n1", "foreign"),)))

    async def found(*asked: tuple[str, bytes], scope: str = "", limit: int = 32) -> list[str]:
        return [branch.id for branch in await store.find_branches("t", asked, scope, limit)]

    assert await found(keys[0], keys[1]) == ["two", "one", "parent"]
    assert await found(keys[0], keys[1], scope="s") == ["two", "one", "new", "old", "parent"]
    assert await found(scope="s", limit=1) == ["new"]
    assert await found(("text", b"n1")) == []
    assert await found() == []
    await store.submit(Batch(branches=(make_branch("old", version=2, scope="s"),)))
    assert await found(scope="s") == ["old", "new"]


async def test_a_receipt_that_very_many_branches_share_leads_to_the_newest(store: Store) -> None:
    names = [f"b{number}" for number in range(700)]
    await store.submit(Batch(branches=tuple(make_branch(name) for name in names)))
    await store.submit(Batch(keys=tuple(KeyRow("t", "text", b"done", name) for name in names)))
    found = await store.find_branches("t", [("text", b"done")], "")
    assert [branch.id for branch in found] == names[:-33:-1]


# -- paths, windows, plans -----------------------------------------------------------------------
async def test_a_path_is_its_bases_front_and_its_tail(store: Store) -> None:
    await store.submit(
        Batch(
            paths=(
                make_path("p1", "abcdef"),
                make_path("p2", "gh", base="p1", keep=4),
                make_path("p3", "i", base="p2", keep=5),
                make_path("p4", "j", base="p3", keep=3),
                make_path("p5", "", base="p4", keep=4),
                make_path("lost", "k", base="never written", keep=2),
                make_path("short", "k", base="p1", keep=9),
            )
        )
    )
    found = {id: "".join(await store.path(id)) for id in ("p1", "p2", "p3", "p4", "p5", "lost", "short", "none", "")}
    unknown = dict.fromkeys(("lost", "short", "none", ""), "")
    assert found == {"p1": "abcdef", "p2": "abcdgh", "p3": "abcdgi", "p4": "abcj", "p5": "abcj"} | unknown


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=40))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_chain_of_deltas_resolves_to_what_it_was_made_from(steps: list[tuple[int, int]]) -> None:
    async def check(store: Store) -> None:
        await store.open()
        path: list[str] = []
        expected = {}
        for number, (keep, fresh) in enumerate(steps):
            keep = min(keep, len(path))
            tail = [f"{number}.{place}" for place in range(fresh)]
            base = f"p{number - 1}" if number else ""
            path = path[:keep] + tail
            expected[f"p{number}"] = tuple(path)
            await store.submit(Batch(paths=(make_path(f"p{number}", tail, base=base, keep=keep),)))
        assert {id: await store.path(id) for id in expected} == expected
        await store.aclose()

    for make in HERE.values():
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(check(make(Path(folder))))
            discard(Path(folder))


async def test_a_window_comes_back_resolved_with_its_exchange(store: Store) -> None:
    first = make_window("w1", "e1", ["1", "2", "3"])
    second = make_window("w2", "e2", ["4"], base="w1", keep=2, attempt=1)
    retry = make_window("w3", "e2", ["5"], base="w2", keep=3, attempt=2)
    outcome = make_outcome("e2", input=10, output=3)
    await store.submit(
        Batch(exchanges=(make_exchange("e1"), make_exchange("e2")), windows=(first, second, retry), outcomes=(outcome,))
    )
    manifest = await store.window("w2")
    assert manifest is not None
    assert manifest.window == second
    assert manifest.entries == tuple(make_entry(item) for item in "124")
    assert (manifest.exchange, manifest.outcome) == (make_exchange("e2"), outcome)
    last = await store.window("e2")
    assert last is not None and [entry.item for entry in last.entries] == ["1", "2", "4", "5"]
    assert await store.windows("c") == ["w1", "w2", "w3"]
    assert await store.window("nowhere") is None


async def test_a_window_whose_base_was_lost_is_an_error_not_a_guess(store: Store) -> None:
    await store.submit(Batch(windows=(make_window("w", "e", ["1"], base="lost", keep=3),)))
    with pytest.raises(StoreError, match="cannot be rebuilt"):
        await store.window("w")


async def test_plans_summaries_and_what_was_learned(store: Store) -> None:
    plan = PlanRow("plan", "b", b"\x00data" * 100)
    summary = SummaryRow("key", "c", "C1", hashed(b"s"), "digest", ("1", "2"), 20, None, "2026")
    await store.submit(Batch(plans=(plan,), summaries=(summary,), learned=(LearnedRow("u", "m", "limit", 8192.0),)))
    await store.submit(Batch(learned=(LearnedRow("u", "m", "limit", 4096.0), LearnedRow("u", "m", "ratio", 1.1))))
    assert await store.plan("plan") == plan
    assert await store.plan("none") is None
    assert await store.summary("key") == summary
    assert await store.summary("none") is None
    assert await store.learned() == [LearnedRow("u", "m", "limit", 4096.0), LearnedRow("u", "m", "ratio", 1.1)]


async def test_coverage_joins_summary_rows_and_links_in_order(store: Store) -> None:
    await store.submit(Batch(items=make_items("1 2 3 4")))
    row = SummaryRow("k", "c", "C2", hashed(b"s"), "digest", ("3", "4"), 20)
    links = tuple(LinkRow("c", "C2", original, "summarizes") for original in ("2", "1", "3"))
    await store.submit(Batch(summaries=(row,), links=(*links, LinkRow("c", "C2", "9", "cites"))))
    assert await store.coverage("c", "C2") == ("1", "2", "3", "4")
    assert await store.coverage("c", "C9") == ()


# -- conversations -------------------------------------------------------------------------------
async def test_a_conversations_line_sums_up(store: Store) -> None:
    await store.submit(
        Batch(
            items=(replace(make_item("0"), role="system"), make_item("1", text="fix the bug"), make_item("2")),
            exchanges=(make_exchange("e1"), make_exchange("e22")),
            branches=(make_branch("b"), make_branch("side")),
            windows=(make_window("w1", "e1", ["1"]), make_window("w2", "e1", ["1"], attempt=2)),
            outcomes=(make_outcome("e1", input=10, cached=4, output=2, cost=0.5), make_outcome("e22", input=5)),
            folds=(make_fold("C1", ["2"]),),
        )
    )
    (line,) = await store.conversations()
    assert (line.id, line.tenant, line.model, line.first_text) == ("c", "t", "gpt-x", "fix the bug")
    assert (line.branches, line.exchanges, line.items, line.folds) == (2, 2, 4, 1)
    assert (line.input, line.cached, line.output, line.cost) == (15, 4, 2, 0.5)
    assert line.saved_tokens == 160  # of the second attempt: 200 - 40
    assert (line.created_at[-9:], line.updated_at[-9:]) == ("2.000000Z", "3.000000Z")


async def test_conversations_are_newest_first_and_of_one_tenant(store: Store) -> None:
    for number, (conversation, tenant) in enumerate([("c1", "t"), ("c2", "t"), ("c3", "u"), ("c1", "t")]):
        await store.submit(Batch(exchanges=(make_exchange(f"e{number}", conversation=conversation, tenant=tenant),)))
    assert [line.id for line in await store.conversations()] == ["c1", "c3", "c2"]
    assert [line.id for line in await store.conversations(tenant="t")] == ["c1", "c2"]
    assert [line.id for line in await store.conversations(limit=1)] == ["c1"]
    assert [(line.id, outcome) for line, outcome in await store.exchanges("c1")] == [("e0", None), ("e3", None)]


async def test_every_attempt_keeps_its_own_outcome_and_the_message_is_kept_once(store: Store) -> None:
    for number, status in enumerate([500, 500, 500, 200]):
        batch = Batch(items=make_items("1"), exchanges=(make_exchange(f"e{number}"),))
        await store.submit(batch)
        await store.submit(Batch(outcomes=(replace(make_outcome(f"e{number}", input=number), status=status),)))
    assert len(await transcript(store)) == 1
    told = [(outcome.status, outcome.input) for _, outcome in await store.exchanges("c") if outcome]
    assert told == [(500, 0), (500, 1), (500, 2), (200, 3)]


async def test_tenants_never_meet(store: Store) -> None:
    for tenant in ("t", "u"):
        await store.submit(
            Batch(
                exchanges=(make_exchange(f"e{tenant}", tenant=tenant, conversation=f"c{tenant}"),),
                items=(make_item("same", conversation=f"c{tenant}", branch=tenant, text="shared words"),),
            )
        )
    assert [item.conversation for item in await store.find_item("same", tenant="u")] == ["cu"]
    assert [s.row.conversation for s, _ in await store.search("shared", tenant="t")] == ["ct"]
    assert [s.row.conversation for s, _ in await store.search("shared", conversation="cu")] == ["cu"]
    assert len(await store.search("shared")) == 2
    assert len(await store.find_item("same")) == 2


# -- search --------------------------------------------------------------------------------------
TEXTS = {
    "1": "please re-index the table",
    "2": "an index of re words: index re",
    "3": "ticket TCK-9041 is open",
    "4": "I can't, I can’t even",
    "5": "this is release 3.14 of it",
    "6": "release 3 of 14 parts",
    "7": "call ns::name here",
    "8": 'he said "unbalanced and left',
    "9": "written in C++ and c",
    "10": "the letter C alone",
    "11": "AND OR NOT NEAR text:word * ^",
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("re-index", "1"),
        ("TCK-9041", "3"),
        ("tck-9041", "3"),
        ("can't", "4"),
        ("release 3.14", "5"),
        ("ns::name", "7"),
        ('"unbalanced', "8"),
        ("unbalanced", "8"),
        ("C++", "9"),
        ("NOT NEAR", "11"),
        ("text:word", "11"),
        ("words: index", "2"),
        ("absent", ""),
        ('"', ""),
        ("* ^ ++ --", ""),
        ("", ""),
        ("\x00 \ud800", ""),
    ],
)
async def test_search_takes_every_text_literally(store: Store, query: str, expected: str) -> None:
    """STOR-04."""
    await store.submit(Batch(items=tuple(make_item(id, text=text) for id, text in TEXTS.items())))
    hits = await store.search(query)
    assert " ".join(stored.row.id for stored, _ in hits) == expected


async def test_relevance_falls_from_one_with_the_rank(store: Store) -> None:
    texts = {"1": "port " + "filler " * 200, "2": "port port port", "3": "port and some words"}
    await store.submit(Batch(items=tuple(make_item(id, text=text) for id, text in texts.items())))
    hits = await store.search("port")
    assert [stored.row.id for stored, _ in hits] == ["2", "3", "1"]
    assert [round(relevance, 3) for _, relevance in hits] == [1.0, 0.667, 0.333]
    assert len(await store.search("port", limit=2)) == 2


async def test_an_original_is_found_once_after_folds(store: Store) -> None:
    await store.submit(Batch(items=(make_item("1", text="needle"),)))
    await store.submit(Batch(folds=(make_fold("C1", ["1"]), make_fold("C2", ["1"]))))
    assert [stored.row.id for stored, _ in await store.search("needle")] == ["1"]


# -- promises of submit --------------------------------------------------------------------------
async def everything(store: Store) -> list[object]:
    shown: list[object] = [await store.conversations(), await store.learned()]
    for conversation in ("c", "d"):
        shown += [await transcript(store, conversation), await store.branches(conversation)]
        shown += [await store.exchanges(conversation), await store.folds(conversation)]
        for window in await store.windows(conversation):
            shown.append(await store.window(window))
    for branch in ("b", "b2"):
        shown += [await store.view(branch), await store.find_branches("t", [("node", b"1")], "s")]
    return shown


names = st.lists(st.integers(1, 9).map(str), max_size=6, unique=True)
branch_names = st.sampled_from(["b", "b2"])


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    branch, exchange = draw(branch_names), f"e{draw(st.integers(0, 3))}"
    items = tuple(make_item(id, branch=branch, text=f"text {id}") for id in draw(names))
    has_fold, version = draw(st.booleans()), draw(st.integers(0, 4))
    return Batch(
        bodies=tuple(BodyRow(item.body, item.atoms) for item in items),
        items=items,
        exchanges=(make_exchange(exchange),),
        outcomes=(make_outcome(exchange, input=7),),
        branches=(make_branch(branch, version=version, scope="s"),),
        windows=(make_window(f"w{exchange}", exchange, [item.id for item in items]),),
        folds=(make_fold(f"C{version}", [item.id for item in items[-2:]], branch=branch),) if has_fold else (),
        keys=(KeyRow("t", "node", b"1", branch),),
        learned=(LearnedRow("u", "m", "limit", 3.0),),
    )


@given(st.lists(batches(), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_submitting_a_batch_again_changes_nothing(sent: list[Batch]) -> None:
    async def check(store: Store) -> None:
        await store.open()
        for batch in sent:
            await store.submit(batch)
            before = await everything(store)
            await asyncio.gather(store.submit(batch), store.submit(batch))
            assert await everything(store) == before
        await store.aclose()

    for make in HERE.values():
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(check(make(Path(folder))))
            discard(Path(folder))


async def test_what_was_written_is_there_after_opening_anew(
    store: Store, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    await store.submit(Batch(items=make_items("1 2"), folds=(make_fold("C1", ["2"]),)))
    last = store.submit(Batch(items=make_items("3")))
    await store.aclose()
    await store.aclose()
    assert last.done() and last.exception() is None
    again = BACKENDS[request.node.callspec.params["store"]](tmp_path)
    await again.open()
    assert await ids(again, summarized=False) == "C1 r2 3"
    await again.aclose()


async def test_a_closed_store_says_so_and_breaks_nothing(store: Store) -> None:
    await store.aclose()
    with pytest.raises(StoreError):
        await store.submit(Batch(items=make_items("1")))
    with pytest.raises(StoreError):
        await store.branch("b")


async def test_keys_of_teams_end_once_and_for_good(store: Store) -> None:
    one, two = (ClientKeyRow(f"k{n}", "harbour", bytes([n]) * 32, f"2026-01-0{n}T00:00:00.000000Z") for n in (1, 2))
    await store.submit(Batch(client_keys=(two, one)))
    assert await store.client_keys() == [one, two]
    late, soon = (replace(one, revoked_at=f"2026-02-0{n}T00:00:00.000000Z") for n in (5, 3))
    for ending in (late, soon, late, one):
        await store.submit(Batch(client_keys=(ending,)))
    assert await store.client_keys() == [soon, two]


async def test_what_a_tenant_was_billed_since_a_moment(store: Store) -> None:
    day = "2026-01-31T00:00:00.000000Z"
    start = int(datetime.fromisoformat("2026-01-31T00:00:00+00:00").timestamp() * 1000)
    for number, (tenant, moment, cost) in enumerate(
        [("team:a", -1, 9.0), ("team:a", 0, 0.5), ("team:a", 90_000, None), ("team:b", 5, 0.25)]
    ):
        name = f"{start + moment:011x}{number:010x}"
        at = datetime.fromtimestamp((start + moment) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        exchange = replace(make_exchange(name, tenant=tenant, conversation=f"c{tenant}"), created_at=at)
        outcome = replace(make_outcome(name, input=100, cached=80, output=10, cost_direct=1.0), cost=cost)
        await store.submit(Batch(exchanges=(exchange,), outcomes=(outcome,)))
    call = SummaryCallRow("s1", "cteam:a", "b", "k", "upstream", "m", "ok", "", 40, 0, 2, 0.125, 1.0, day)
    await store.submit(Batch(summary_calls=(call,)))
    assert await store.spent("team:a", day) == Spent(2, 262, 0.625)
    assert await store.spent("team:none", day) == Spent()
    assert await store.usage(day) == [
        TenantUsage("team:a", 2, 200, 160, 20, 0.5, 2.0), TenantUsage("team:b", 1, 100, 80, 10, 0.25, 1.0)
    ]  # fmt: skip
