"""Rows as deltas: what stands on what, and when a list is written whole again."""

from __future__ import annotations

from proxy.core.identity import emitted
from proxy.core.model import Frame
from proxy.core.records import Batch, BodyRow, Entry, WindowRow
from proxy.recording import SNAPSHOT_EVERY, Chain, Served, depth_after, fresh_rows, item_rows, merge, now, path_row
from proxy.recording import window_row as make_window_row
from proxy.windows import Rendered
from tests.support import talks


def entries(*bodies: bytes) -> tuple[Entry, ...]:
    return tuple(Entry(f"i{n}", 5, body, 1) for n, body in enumerate(bodies))


def window_row(
    last: Served, *bodies: bytes, gaps: tuple[bytes, ...] = (b",",)
) -> tuple[WindowRow, tuple[BodyRow, ...]]:
    rendered = Rendered(b"[..]", Frame(b"[", gaps, b"]"), entries(*bodies), (), False)
    return make_window_row(
        "w", "x", "b", 1, last, rendered, policy="sticky", reason="", tokens_in=2, tokens_out=1
    )  # fmt: skip


def test_now_is_utc_and_sorts() -> None:
    first, second = now(), now()
    assert first <= second and first.endswith("Z") and len(first) == 27


def test_a_path_grows_by_deltas_and_nothing_is_written_for_nothing() -> None:
    row, chain = path_row("b", Chain(), ("a", "b"))
    assert row is not None and (row.base, row.keep, row.tail) == ("", 0, ("a", "b"))
    assert path_row("b", chain, ("a", "b")) == (None, chain)
    grown, longer = path_row("b", chain, ("a", "b", "c"))
    assert grown is not None and (grown.base, grown.keep, grown.tail) == (row.id, 2, ("c",))
    assert longer.depth == 1
    other, _ = path_row("b", longer, ("a", "x"))
    assert other is not None and (other.keep, other.tail) == (1, ("x",))
    assert path_row("b", Chain(), ("a", "b"))[0] == row  # same content, same id


def test_a_path_that_stands_on_too_many_is_written_whole() -> None:
    row, chain = path_row("b", Chain("p", SNAPSHOT_EVERY, ("a",)), ("a", "b"))
    assert row is not None and (row.base, row.tail, chain.depth) == ("", ("a", "b"), 0)


def test_a_window_is_a_delta_to_the_last_one() -> None:
    whole, bodies = window_row(Served(), b"1", b"2")
    assert (whole.base, whole.keep, len(whole.tail), whole.first_change) == ("", 0, 2, -1)
    assert [body.data for body in bodies] == [b"[", b"]"]
    served = Served("w0", 3, entries(b"1", b"2"))
    row, _ = window_row(served, b"1", b"2", b"3")
    assert (row.base, row.keep, len(row.tail), row.first_change) == ("w0", 2, 1, -1)
    assert depth_after(served, row) == 4 and depth_after(served, whole) == 0
    changed, _ = window_row(served, b"1", b"x")
    assert (changed.keep, changed.first_change) == (1, 1)


def test_no_delta_on_a_window_that_may_not_carry_one() -> None:
    """The break is still seen: what the provider had is known, whatever the disk has."""
    row, _ = window_row(Served("w0", SNAPSHOT_EVERY, entries(b"1", b"2")), b"1", b"x")
    assert (row.base, row.keep, len(row.tail), row.first_change) == ("", 0, 2, 1)


def test_gaps_are_kept_one_by_one_only_where_they_differ() -> None:
    assert window_row(Served(), b"1", b"2", b"3", gaps=(b", ", b", "))[0].gaps == ()
    assert window_row(Served(), b"1", b"2", b"3", gaps=(b", ", b","))[0].gaps == (b", ", b",")


def test_items_carry_call_ids_groups_and_pins() -> None:
    elements = [talks.system("s"), talks.assistant(None, ("c1", "look", "{}")), talks.result("c1", "r")]
    rows, bodies = item_rows(
        elements,
        ["i0", "i1", "i2"],
        emitted(elements),
        [0, 1, 1],
        conversation="c",
        branch="b",
        exchange="x",
        pinned=frozenset({"i0"}),
    )
    assert [row.is_pinned for row in rows] == [True, False, False]
    assert [row.group for row in rows] == ["x:0", "x:1", "x:1"] and rows[1].call_id == "c1"
    assert [body.data for body in bodies] == [element.raw for element in elements]
    fresh = fresh_rows(rows[:2], rows[2], 1)
    assert [(row.id, row.origin) for row in fresh] == [("i0", "i0"), ("i2", ""), ("i1", "i1")]


def test_merged_batches_keep_their_order() -> None:
    one, two = BodyRow(b"1", b"a"), BodyRow(b"2", b"b")
    assert merge(Batch(bodies=(one,)), Batch(), Batch(bodies=(two,))).bodies == (one, two)
