"""Results of background responses by themselves: for whom, when, and that nothing unreadable does harm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.background import KEPT, Background, Watch
from proxy.core.model import Reply
from proxy.core.records import Batch
from proxy.store.null import NullStore
from proxy.turn import Turn
from tests.support import builders
from tests.support.turns import bench

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
WHOLE = {"id": "c", "choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]}


class Kept(NullStore):
    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []

    def submit(self, batch: Batch, *, may_wait: bool = False) -> Any:
        self.batches.append(batch)
        return super().submit(batch)


async def made(folder: Path) -> tuple[Background, Kept, Turn]:
    store = Kept()
    turn = await bench(folder).begin([builders.user("a")])
    return Background(store), store, turn


async def fetch(watch: Watch, body: bytes, headers: Sequence[tuple[bytes, bytes]] = (), status: int = 200) -> None:
    watch.start(SimpleNamespace(status=status, headers=list(headers)))  # type: ignore[arg-type]
    watch.feed(body)
    await watch.finish()


async def test_only_what_was_asked_for_is_watched(tmp_path: Path) -> None:
    background, _, turn = await made(tmp_path)
    background.expect(turn, Reply(response_id="r1", finish="queued"), "t")
    background.expect(turn, Reply(response_id="r2", finish="stop"), "t")
    assert background.watch("GET", "/v1/responses/r1", "t")
    for method, path, tenant in (
        ("GET", "/v1/responses/r2", "t"), ("GET", "/v1/responses/r1", "other"), ("DELETE", "/v1/responses/r1", "t"),
        ("GET", "/v1/responses/r1/input_items", "t"), ("GET", "/v1/files/r1", "t"),
    ):  # fmt: skip
        assert background.watch(method, path, tenant) is None
    for number in range(KEPT):
        background.expect(turn, Reply(response_id=f"x{number}", finish="in_progress"), "t")
    assert background.watch("GET", "/v1/responses/r1", "t") is None


async def test_the_bill_is_written_once(tmp_path: Path) -> None:
    background, store, turn = await made(tmp_path)
    background.expect(turn, Reply(response_id="r1", finish="queued"), "t")
    first, second = (background.watch("GET", "/v1/responses/r1", "t") for _ in range(2))
    assert first and second
    await fetch(first, json.dumps(WHOLE).encode())
    assert store.batches == []  # no bill yet
    await fetch(second, json.dumps({**WHOLE, "usage": USAGE}).encode())
    await fetch(first, json.dumps({**WHOLE, "usage": USAGE}).encode())
    [batch] = store.batches
    assert (batch.outcomes[0].input, batch.outcomes[0].output, batch.exchanges[0].method) == (7, 2, "GET")
    assert batch.exchanges[0].branch == turn.placement.branch
    assert background.watch("GET", "/v1/responses/r1", "t") is None


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"no json", [], 200),
        (b"not gzip", [(b"content-encoding", b"gzip")], 200),
        (b"odd", [(b"content-encoding", b"martian")], 200),
        (json.dumps({**WHOLE, "usage": USAGE}).encode(), [], 404),
    ],
)
async def test_what_cannot_be_read_is_no_result(tmp_path: Path, body: bytes, headers: Any, status: int) -> None:
    background, store, turn = await made(tmp_path)
    background.expect(turn, Reply(response_id="r1", finish="queued"), "t")
    watch = background.watch("GET", "/v1/responses/r1", "t")
    assert watch
    await fetch(watch, body, headers, status)
    assert store.batches == [] and background.watch("GET", "/v1/responses/r1", "t")
