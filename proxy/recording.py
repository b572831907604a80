"""Turns what an exchange knows into rows. Pure: builds batches, writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from proxy.core.identity import Step, encode_step
from proxy.core.model import Element
from proxy.core.records import Batch, BodyRow, Entry, ItemRow, PathRow, WindowRow
from proxy.core.window import common_prefix, first_difference
from proxy.windows import Rendered

SNAPSHOT_EVERY = 64
"""So many deltas may stand on each other before a list is written whole again."""
ITEMS_PER_DELTA = 8
"""A path of many items may stand on more of them: what is written whole must not outgrow what is new."""


_BATCH_FIELDS = tuple(field.name for field in fields(Batch))


def now() -> str:
    """UTC with microseconds and Z."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def item_rows(
    elements: Sequence[Element],
    ids: Sequence[str],
    steps: Sequence[Step],
    groups: Sequence[int],
    *,
    conversation: str,
    branch: str,
    exchange: str,
    pinned: frozenset[str] = frozenset(),
    sources: Sequence[str] = (),
) -> tuple[tuple[ItemRow, ...], tuple[BodyRow, ...]]:
    """Rows and bodies of the given elements; all sequences are parallel."""
    created = now()
    rows = []
    bodies = []
    for index, (element, item, step) in enumerate(zip(elements, ids, steps, strict=True)):
        call_id = element.answers or (element.calls[0].id if element.calls else "")
        rows.append(
            ItemRow(
                id=item,
                conversation=conversation,
                branch=branch,
                kind=element.kind,
                role=element.role,
                body=element.body_hash,
                atoms=encode_step(step),
                call_id=call_id,
                source=sources[index] if sources else "",
                group=f"{exchange}:{groups[index]}" if groups else "",
                is_pinned=item in pinned,
                text=element.text,
                exchange=exchange,
                created_at=created,
            )
        )
        bodies.append(BodyRow(element.body_hash, element.raw))
    return tuple(rows), tuple(bodies)


@dataclass(frozen=True, slots=True)
class Chain:
    """The newest list of a branch's path, and how many deltas it stands on."""

    id: str = ""
    depth: int = 0
    items: tuple[str, ...] = ()


def path_row(branch: str, chain: Chain, items: tuple[str, ...]) -> tuple[PathRow | None, Chain]:
    """The delta from `chain` to `items`; None when nothing changed."""
    if chain.id and items == chain.items:
        return None, chain
    keep = _common(chain.items, items) if chain.id and chain.depth < _deltas(chain) else 0
    base = chain.id if keep else ""
    tail = items[keep:]
    key = blake2b(digest_size=12)
    for part in (branch, base, str(keep), *tail):
        key.update(part.encode() + b"\0")
    row = PathRow(id=key.hexdigest(), branch=branch, base=base, keep=keep, tail=tail)
    return row, Chain(row.id, chain.depth + 1 if base else 0, items)


def _deltas(chain: Chain) -> int:
    return max(SNAPSHOT_EVERY, len(chain.items) // ITEMS_PER_DELTA)


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    limit = min(len(old), len(new))
    if old[:limit] == new[:limit]:
        return limit
    return next(i for i in range(limit) if old[i] != new[i])


@dataclass(frozen=True, slots=True)
class Served:
    """The last window of a branch: its entries and how many deltas it stands on."""

    id: str = ""
    depth: int = 0
    entries: tuple[Entry, ...] = ()


def window_row(
    window_id: str,
    exchange: str,
    branch: str,
    attempt: int,
    last: Served,
    rendered: Rendered,
    *,
    policy: str,
    reason: str,
    tokens_in: int,
    tokens_out: int,
) -> tuple[WindowRow, tuple[BodyRow, ...]]:
    """The manifest row of a served window as a delta to the branch's last one, and the frame's bodies."""
    frame = rendered.frame
    keep = common_prefix(last.entries, rendered.entries) if last.id and last.depth < SNAPSHOT_EVERY else 0
    base = last.id if keep else ""
    distinct = set(frame.gaps)
    gap = next(iter(distinct)) if len(distinct) == 1 else b","
    prefix = BodyRow(_hash(frame.prefix), frame.prefix)
    suffix = BodyRow(_hash(frame.suffix), frame.suffix)
    row = WindowRow(
        id=window_id,
        exchange=exchange,
        branch=branch,
        attempt=attempt,
        base=base,
        keep=keep,
        tail=rendered.entries[keep:],
        prefix=prefix.hash,
        suffix=suffix.hash,
        gap=gap,
        gaps=frame.gaps if len(distinct) > 1 else (),
        out_hash=rendered.out_hash,
        out_bytes=len(rendered.body),
        policy=policy,
        reason=reason,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        first_change=first_difference(last.entries, rendered.entries) if last.id else -1,
        created_at=now(),
    )
    return row, (prefix, suffix)


def merge(*batches: Batch) -> Batch:
    """All rows of several batches, in order."""
    rows: dict[str, Any] = {}
    for batch in batches:
        for name in _BATCH_FIELDS:
            if more := getattr(batch, name):
                rows[name] = (*rows[name], *more) if name in rows else more
    return Batch(**rows)


def depth_after(last: Served, row: WindowRow) -> int:
    """How many deltas a window stands on."""
    return last.depth + 1 if row.base else 0


def fresh_rows(items: Sequence[ItemRow], summary: ItemRow, before: int) -> tuple[ItemRow, ...]:
    """A fold's fresh rows: every kept item again with a link to its original, the summary at place `before`."""
    again = [replace(item, origin=item.id) for item in items]
    return (*again[:before], summary, *again[before:])


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
