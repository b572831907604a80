"""Plans and windows: what a branch's window does beyond "as sent", applied to a request's items. Pure.

A plan names items by id and carries the exact texts that stand for them, so that the same plan
gives the same bytes on any replica and after any upgrade. It is applied only to items that are in
the request: a fold counts only while every item it covers is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from policies.model import ExcerptKind, Form
from proxy.core.records import Entry

PLAN_VERSION = 1


class Mask(msgspec.Struct, frozen=True, array_like=True):
    """One reduced item: the texts that stand in place of its own, None where one stays as it is.

    An excerpt also says what kind it is, which items it refers to, and which segments it was asked to keep.
    """

    form: int
    texts: tuple[str | None, ...]
    reason: str = ""
    kind: ExcerptKind = ""
    bases: tuple[str, ...] = ()
    keep: tuple[int, ...] = ()


class Compaction(msgspec.Struct, frozen=True, array_like=True):
    """What the provider itself made of the beginning of a fold: one sealed element, for `model` alone.

    `item` is its id, by which its originals are found. `text` is the digest that stands behind it: the user's
    words and rules, and what the fold covers beyond it.
    """

    item: str
    raw: bytes
    tokens: int
    model: str
    text: str


class Fold(msgspec.Struct, frozen=True, array_like=True):
    """A region that one digest item stands for. `item` is the digest's own item id."""

    covers: tuple[str, ...]
    item: str
    text: str
    reason: str = ""
    keeps: dict[str, tuple[int, ...]] = {}  # segments of covered items that stand in the text word for word
    compaction: Compaction | None = None

    def stand_ins(self, sealed_for: str = "") -> tuple[Slot, ...]:
        """What stands for the region. `sealed_for`: the model, where the list's format takes sealed elements."""
        own = self.compaction
        if own is None or own.model != sealed_for:
            return (Slot(None, self.item, Form.FOLDED, note=self.text, reason=self.reason),)
        sealed = Slot(None, own.item, Form.FOLDED, reason=self.reason, raw=own.raw, tokens=own.tokens)
        return (sealed, Slot(None, self.item, Form.FOLDED, note=own.text, reason=self.reason))


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """Everything that a branch's windows do. Immutable; a change makes a new plan with a new id."""

    masks: dict[str, Mask] = {}
    fold: Fold | None = None
    version: int = PLAN_VERSION

    def held(self) -> dict[str, Form]:
        """The form of every item that is not in full."""
        forms = {item: Form(mask.form) for item, mask in self.masks.items()}
        if self.fold is not None:
            forms.update(dict.fromkeys(self.fold.covers, Form.FOLDED))
        return forms

    def kept(self) -> dict[str, tuple[int, ...]]:
        """The segments that stay of reduced items, where some do."""
        kept = {item: mask.keep for item, mask in self.masks.items() if mask.keep}
        if self.fold is not None:
            kept.update(self.fold.keeps)
        return kept

    @property
    def is_empty(self) -> bool:
        return not self.masks and self.fold is None


EMPTY = Plan()
_encoder = msgspec.msgpack.Encoder(order="sorted")
_decoder = msgspec.msgpack.Decoder(Plan)


def encode_plan(plan: Plan) -> bytes:
    """A plan for the store. What its fold covers stands there already, with the fold's summary item."""
    fold = plan.fold
    if fold is not None:
        plan = msgspec.structs.replace(plan, fold=msgspec.structs.replace(fold, covers=()))
    return _encoder.encode(plan)


def decode_plan(data: bytes) -> Plan:
    """The plan as it was stored: see `covering` for a fold's items."""
    return _decoder.decode(data)


def covering(plan: Plan, covers: Sequence[str]) -> Plan:
    """The plan with what its fold covers; without its fold where that is not known any more."""
    if plan.fold is None or plan.fold.covers:
        return plan
    fold = msgspec.structs.replace(plan.fold, covers=tuple(covers)) if covers else None
    return msgspec.structs.replace(plan, fold=fold)


def plan_id(branch: str, data: bytes) -> str:
    return blake2b(branch.encode() + b"\0" + data, digest_size=12).hexdigest()


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """One place of the outgoing list: a request item by index in its form, or the digest."""

    index: int | None
    item: str
    form: Form
    texts: tuple[str | None, ...] = ()
    note: str = ""
    reason: str = ""
    raw: bytes = b""  # a sealed element that goes out as it is
    tokens: int = 0  # about what it takes


def applicable(plan: Plan, items: Sequence[str]) -> Plan:
    """The plan as far as this request allows: without a fold that covers an item which is not here."""
    if plan.fold is None or set(plan.fold.covers).issubset(items):
        return plan
    return Plan(masks=plan.masks, fold=None)


def slots(
    plan: Plan, items: Sequence[str], absent: frozenset[str] = frozenset(), *, sealed_for: str = ""
) -> list[Slot]:
    """The outgoing list. The digest stands where the first covered item stood (see `Fold.stand_ins`)."""
    masks = plan.masks
    covers = frozenset(plan.fold.covers) if plan.fold is not None else frozenset()
    out: list[Slot] = []
    has_digest = False
    for index, item in enumerate(items):
        if item in covers and plan.fold is not None:
            if not has_digest:
                out.extend(plan.fold.stand_ins(sealed_for))
                has_digest = True
            continue
        if item in absent:
            continue
        mask = masks.get(item)
        if mask is None:
            out.append(Slot(index, item, Form.FULL))
        else:
            out.append(Slot(index, item, Form(mask.form), texts=mask.texts, reason=mask.reason))
    return out


def first_difference(old: Sequence[Entry], new: Sequence[Entry]) -> int:
    """Index of the first entry that would break the provider's prefix cache; -1 when `new` only grew."""
    if len(old) <= len(new) and new[: len(old)] == old:
        return -1
    for index, (before, after) in enumerate(zip(old, new, strict=False)):
        if before.body != after.body:
            return index
    return len(new) if len(new) < len(old) else -1


def common_prefix(old: Sequence[Entry], new: Sequence[Entry]) -> int:
    """How many leading entries are equal."""
    if len(old) <= len(new) and new[: len(old)] == old:
        return len(old)
    count = 0
    for before, after in zip(old, new, strict=False):
        if before.body != after.body or before.form != after.form or before.item != after.item:
            break
        count += 1
    return count
