"""Rows for store tests: short names in, whole rows out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from proxy.core.records import (
    Batch,
    BodyRow,
    BranchRow,
    Entry,
    ExchangeRow,
    FoldRow,
    ItemRow,
    OutcomeRow,
    PathRow,
    WindowRow,
)


def hashed(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def make_body(text: str) -> BodyRow:
    return BodyRow(hashed(text.encode()), text.encode())


def make_item(id: str, *, conversation: str = "c", branch: str = "b", text: str = "", origin: str = "") -> ItemRow:
    return ItemRow(
        id=id,
        conversation=conversation,
        branch=branch,
        kind="summary" if id.startswith("C") else "message",
        role="user",
        body=hashed(f"body of {id}".encode()),
        atoms=f"atoms of {id}".encode(),
        text=text,
        origin=origin,
        created_at="2026-01-01T00:00:00.000000Z",
    )


def make_items(ids: str, **options: str) -> tuple[ItemRow, ...]:
    return tuple(make_item(id, **options) for id in ids.split())


def make_fold(
    summary: str, kept: Sequence[str], *, conversation: str = "c", branch: str = "b", prefix: str = "r"
) -> FoldRow:
    """A fold whose tail re-inserts `kept` as fresh rows, named with `prefix`."""
    tail = [make_item(prefix + id, conversation=conversation, branch=branch, origin=id) for id in kept]
    return FoldRow(
        conversation=conversation,
        branch=branch,
        trigger="threshold",
        figure=200_000,
        tokens_before=180_000,
        tokens_after=20_000,
        summary=summary,
        fresh=(make_item(summary, conversation=conversation, branch=branch), *tail),
        created_at="2026-01-01T00:00:00.000000Z",
    )


def make_exchange(id: str, *, tenant: str = "t", conversation: str = "c", branch: str = "b") -> ExchangeRow:
    return ExchangeRow(
        id=id,
        tenant=tenant,
        conversation=conversation,
        branch=branch,
        verdict="continue",
        method="POST",
        path="/v1/chat/completions",
        model="gpt-x",
        wire="chat",
        is_stream=True,
        request_bytes=1000,
        items=3,
        created_at=f"2026-01-01T00:00:0{len(id) % 10}.000000Z",
    )


def make_outcome(exchange: str, **values: int | float | str) -> OutcomeRow:
    return OutcomeRow(exchange=exchange, status=200, outcome="ok", attempts=1, **values)  # type: ignore[arg-type]


def make_branch(id: str, *, version: int = 1, tenant: str = "t", **values: str) -> BranchRow:
    fields = {"conversation": "c", **values}
    return BranchRow(id=id, tenant=tenant, kind="main", version=version, **fields)  # type: ignore[arg-type]


def make_path(id: str, tail: Sequence[str], *, base: str = "", keep: int = 0) -> PathRow:
    return PathRow(id=id, branch="b", base=base, keep=keep, tail=tuple(tail))


def make_entry(item: str) -> Entry:
    return Entry(item, form=3, body=hashed(item.encode()), tokens=7, reason="new", score=0.5)


def make_window(
    id: str, exchange: str, tail: Sequence[str], *, base: str = "", keep: int = 0, attempt: int = 1
) -> WindowRow:
    return WindowRow(
        id=id,
        exchange=exchange,
        branch="b",
        attempt=attempt,
        base=base,
        keep=keep,
        tail=tuple(make_entry(item) for item in tail),
        prefix=hashed(b"prefix"),
        suffix=hashed(b"suffix"),
        gap=b", ",
        gaps=(b",", b",\n"),
        out_hash="ab" * 32,
        out_bytes=5,
        policy="sticky",
        reason="",
        tokens_in=100 * attempt,
        tokens_out=40,
        first_change=-1,
        created_at="2026-01-01T00:00:00.000000Z",
    )


def small_batch(number: int, *, conversation: str = "c", items: int = 5) -> Batch:
    """What one turn of an agent writes: bodies, items, exchange, branch, path and window."""
    ids = [f"{conversation}i{number}x{place}" for place in range(items)]
    texts = [f"turn {number} line {place} of a tool's output, with words to index" * 10 for place in range(items)]
    return Batch(
        bodies=tuple(make_body(text) for text in texts),
        items=tuple(
            make_item(id, conversation=conversation, branch=conversation, text=text)
            for id, text in zip(ids, texts, strict=True)
        ),
        exchanges=(make_exchange(f"{conversation}e{number}", conversation=conversation, branch=conversation),),
        branches=(make_branch(conversation, version=number + 1, conversation=conversation),),
        paths=(make_path(f"{conversation}p{number}", ids),),
        windows=(make_window(f"{conversation}w{number}", f"{conversation}e{number}", ids),),
    )
