"""A small store on disk with one conversation: a tool result masked in its window, then a compaction."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from policies.model import Form
from proxy.core.records import (
    Batch,
    BodyRow,
    BranchRow,
    Entry,
    ExchangeRow,
    FoldRow,
    ItemRow,
    OutcomeRow,
    WindowRow,
)
from proxy.store.base import Store
from proxy.store.open import open_store

CONVERSATION = "k3x9a7b2c4d6"
BRANCH = "b7aaaaaaaaaa"
WINDOW = "w5cccccccccc"
EXCHANGE = "e1dddddddddd"
OUTPUT = "".join(f"row {number}: ok\\n" for number in range(1, 41)).replace("row 20: ok", "row 20: ERROR boom")
OUTPUT_TEXT = OUTPUT.replace("\\n", "\n")

RAW = {
    "i0system": b'{"role":"system","content":"You are terse."}',
    "i1user": b'{"role": "user", "content": "Find the \\u001b[31mbroken row"}',
    "i2call": b'{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",'
    b'"function":{"name":"search","arguments":"{\\"q\\":\\"broken\\"}"}}]}',
    "i3result": b'{"role":"tool","tool_call_id":"call_1","content":"' + OUTPUT.encode() + b'"}',
    "i4answer": b'{"role":"assistant","content":"Row 20 is broken."}',
}
STUB = b'{"role":"tool","tool_call_id":"call_1","content":"[output omitted from history]"}'
PREFIX = b'{"model":"gpt-5","messages":['
SUFFIX = b'],"stream":true}'
SENT = PREFIX + b", ".join([RAW["i0system"], RAW["i1user"], RAW["i2call"], STUB]) + SUFFIX
KINDS = {"i2call": "tool_call", "i3result": "tool_result"}


def hashed(data: bytes) -> bytes:
    return sha256(data).digest()[:16]


def item(id: str) -> ItemRow:
    role = {"i0system": "system", "i1user": "user", "i3result": "tool"}.get(id, "assistant")
    return ItemRow(
        id=id,
        conversation=CONVERSATION,
        branch=BRANCH,
        kind=KINDS.get(id, "message"),
        role=role,
        body=hashed(RAW[id]),
        atoms=b"",
        call_id="call_1" if id in KINDS else "",
        source="broken" if id == "i3result" else "",
        is_pinned=id in ("i0system", "i1user"),
        text="Find the broken row" if id == "i1user" else "text",
        exchange=EXCHANGE,
        created_at="2026-01-31T14:05:00.000000Z",
    )


def rows(*, out_hash: str = sha256(SENT).hexdigest(), extra_conversation: str = "") -> list[Batch]:
    sent = [*list(RAW)[:3], "i3result"]
    bodies = [RAW[id] if id != "i3result" else STUB for id in sent]
    entries = tuple(
        Entry(
            item=id,
            form=int(Form.STUB if id == "i3result" else Form.FULL),
            body=hashed(body),
            tokens=10,
            reason="old output, 600 characters" if id == "i3result" else "",
            score=0.25 if id == "i3result" else 0.0,
        )
        for id, body in zip(sent, bodies, strict=True)
    )
    exchange = ExchangeRow(
        id=EXCHANGE,
        tenant="t1",
        conversation=CONVERSATION,
        branch=BRANCH,
        verdict="new",
        method="POST",
        path="/v1/chat/completions",
        model="gpt-5",
        wire="chat",
        is_stream=True,
        request_bytes=900,
        items=4,
        created_at="2026-01-31T14:05:00.000000Z",
    )
    window = WindowRow(
        id=WINDOW,
        exchange=EXCHANGE,
        branch=BRANCH,
        attempt=1,
        base="",
        keep=0,
        tail=entries,
        prefix=hashed(PREFIX),
        suffix=hashed(SUFFIX),
        gap=b", ",
        gaps=(),
        out_hash=out_hash,
        out_bytes=len(SENT),
        policy="sticky",
        reason="masked 1 old output",
        tokens_in=240,
        tokens_out=40,
        first_change=3,
        created_at="2026-01-31T14:05:01.000000Z",
    )
    branch = BranchRow(
        id=BRANCH,
        tenant="t1",
        conversation=CONVERSATION,
        kind="main",
        version=1,
        model="gpt-5",
        window=WINDOW,
        updated_at="2026-01-31T14:05:02.000000Z",
    )
    outcome = OutcomeRow(
        exchange=EXCHANGE, status=200, outcome="ok", attempts=1, finish="stop", input=1234, cached=1000, output=56,
        cost=0.0123, cost_direct=0.02, ended_at="2026-01-31T14:05:02.000000Z", reply_items=("i4answer",),
    )  # fmt: skip
    first = Batch(
        bodies=tuple(BodyRow(hashed(data), data) for data in [*RAW.values(), STUB, PREFIX, SUFFIX]),
        items=tuple(item(id) for id in RAW),
        exchanges=(exchange,),
        branches=(branch,),
        windows=(window,),
    )
    batches = [first, Batch(outcomes=(outcome,)), Batch(folds=(fold(),))]
    if extra_conversation:
        other = replace(exchange, id="e2", conversation=extra_conversation, branch="b2", verdict="passthrough")
        batches.append(
            Batch(exchanges=(other,), branches=(replace(branch, id="b2", conversation=extra_conversation, window=""),))
        )
    return batches


def fold() -> FoldRow:
    fresh = [
        replace(item(id), id=f"f{id}", origin=id, created_at="2026-01-31T14:06:00.000000Z")
        for id in ("i0system", "i1user", "i4answer")
    ]
    return FoldRow(
        conversation=CONVERSATION,
        branch=BRANCH,
        trigger="threshold",
        figure=1234,
        tokens_before=240,
        tokens_after=60,
        summary="fi4answer",
        fresh=tuple(fresh),
        created_at="2026-01-31T14:06:00.000000Z",
    )


async def fill(store: Store, batches: list[Batch]) -> None:
    await store.open()
    try:
        for batch in batches:
            await store.submit(batch)
    finally:
        await store.aclose()


def sample_store(folder: Path, **options: str) -> Path:
    """The path of a filled database."""
    path = folder / "sample.db"
    asyncio.run(fill(open_store(path), rows(**options)))
    return path
