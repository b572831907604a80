"""Plans applied to a request's items: what goes out, in which form, and where that breaks a cached prefix."""

from __future__ import annotations

import msgspec

from policies.model import Form
from proxy.core.records import Entry
from proxy.core.window import (
    EMPTY,
    Compaction,
    Fold,
    Mask,
    Plan,
    applicable,
    common_prefix,
    covering,
    decode_plan,
    encode_plan,
    first_difference,
    plan_id,
    slots,
)

ITEMS = ("a", "b", "c", "d")
MASK = Mask(int(Form.STUB), ("gone", None), "old")
FOLD = Fold(("b", "c"), "s", "what b and c said", "guard")


def entry(item: str, body: bytes, form: Form = Form.FULL) -> Entry:
    return Entry(item, int(form), body, 1)


def test_a_plan_survives_storage_and_its_bytes_are_stable() -> None:
    one = Plan(masks={"d": MASK, "a": MASK}, fold=FOLD)
    other = Plan(masks={"a": MASK, "d": MASK}, fold=FOLD)
    assert covering(decode_plan(encode_plan(one)), FOLD.covers) == one
    assert covering(decode_plan(encode_plan(one)), ()) == Plan(masks=one.masks)
    assert encode_plan(one) == encode_plan(other)
    assert plan_id("x", encode_plan(one)) == plan_id("x", encode_plan(other)) != plan_id("y", encode_plan(one))


def test_an_empty_plan_leaves_every_item_in_full() -> None:
    assert EMPTY.is_empty and not Plan(fold=FOLD).is_empty
    assert [(slot.index, slot.item, slot.form) for slot in slots(EMPTY, ITEMS)] == [
        (index, item, Form.FULL) for index, item in enumerate(ITEMS)
    ]


def test_the_digest_stands_once_where_the_first_covered_item_stood() -> None:
    out = slots(Plan(masks={"d": MASK}, fold=FOLD), ITEMS)
    assert [(slot.index, slot.item, slot.form) for slot in out] == [
        (0, "a", Form.FULL),
        (None, "s", Form.FOLDED),
        (3, "d", Form.STUB),
    ]
    assert out[1].note == FOLD.text and out[2].texts == MASK.texts and out[2].reason == "old"


def test_absent_items_leave_no_slot() -> None:
    assert [slot.item for slot in slots(EMPTY, ITEMS, frozenset("bd"))] == ["a", "c"]


def test_a_fold_counts_only_while_all_that_it_covers_is_there() -> None:
    plan = Plan(masks={"d": MASK}, fold=FOLD)
    assert applicable(plan, ITEMS) is plan
    assert applicable(plan, ("a", "b", "d")) == Plan(masks={"d": MASK})


def test_held_names_every_form_below_full() -> None:
    assert Plan(masks={"d": MASK}, fold=FOLD).held() == {"d": Form.STUB, "b": Form.FOLDED, "c": Form.FOLDED}


def test_first_difference_is_where_a_cached_prefix_ends() -> None:
    old = [entry("a", b"1"), entry("b", b"2")]
    assert first_difference(old, [*old, entry("c", b"3")]) == -1
    assert first_difference(old, [old[0], entry("b", b"x")]) == 1
    assert first_difference(old, old[:1]) == 1
    assert first_difference([], old) == -1


def test_common_prefix_also_looks_at_form_and_item() -> None:
    old = [entry("a", b"1"), entry("b", b"2")]
    assert common_prefix(old, [*old, entry("c", b"3")]) == 2
    assert common_prefix(old, [old[0], entry("b", b"2", Form.STUB)]) == 1
    assert common_prefix(old, [entry("z", b"1"), old[1]]) == 0


def test_a_sealed_element_goes_out_to_its_own_model_alone_and_outlives_a_restart() -> None:
    own = Compaction("z", b'{"type":"compaction"}', 120, "m", "the rest")
    plan = Plan(fold=Fold(("b", "c"), "s", "what b and c said", "guard", {}, own))
    assert covering(decode_plan(encode_plan(plan)), ("b", "c")) == plan
    sealed = slots(plan, ITEMS, sealed_for="m")
    assert [(slot.item, slot.raw, slot.note) for slot in sealed] == [
        ("a", b"", ""), ("z", own.raw, ""), ("s", b"", "the rest"), ("d", b"", "")
    ]  # fmt: skip
    for other in ("", "n"):
        assert [slot.note for slot in slots(plan, ITEMS, sealed_for=other)] == ["", "what b and c said", ""]


def test_a_plan_of_an_earlier_version_is_read() -> None:
    plan = Plan(masks={"a": MASK}, fold=FOLD)
    fields = msgspec.msgpack.decode(encode_plan(plan))
    fields[1] = fields[1][:5]  # as it was written before there were sealed elements
    assert covering(decode_plan(msgspec.msgpack.encode(fields)), FOLD.covers) == plan
