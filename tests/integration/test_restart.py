"""What outlives the process: the same bytes after a kill, and a branch whose rows were lost on the way to the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.core.records import Batch
from proxy.store.base import Store
from proxy.views import find_window, render_window
from tests.support import builders
from tests.support.flaky_store import FlakyStores
from tests.support.records import Records
from tests.support.serve import served, served_process
from tests.support.session import FOLDED, NEVER, OMITTED, conversation, from_store, ok, raw_messages, strict
from tests.support.upstream import ScriptedUpstream

Message = builders.Message
MASKING = {"economics": False, "mask_at": 4000, "min_batch": 1000}


def turn(number: int, size: int = 3000) -> list[Message]:
    return [builders.user(f"gauge {number}?"), *builders.step(number, builders.long_text(number, size))]


def start() -> list[Message]:
    return [builders.system(), builders.user("Watch the gauges. Never touch the sluice.")]


def answered() -> Message:
    return builders.assistant("noted")


def test_cache_06_a_kill_between_turns_changes_no_byte(tmp_path: Path) -> None:
    """Also promise 12: a process that was never killed sends the very same."""
    bodies: list[list[bytes]] = []
    for is_killed in (True, False):
        folder = tmp_path / str(is_killed)
        folder.mkdir()
        with (
            ScriptedUpstream(strict) as up,
            served_process(up.base_url, folder, policy__options=MASKING) as proxy,
        ):
            messages = start()
            for number in range(10):
                messages += [*turn(number)]
                ok(proxy, messages)
                messages.append(answered())
            if is_killed:
                proxy.restart()
            messages += turn(10)
            ok(proxy, messages)
            bodies.append([request.body for request in up.requests])
    killed, whole = bodies
    before, after = raw_messages(killed[-2]), raw_messages(killed[-1])
    assert OMITTED in killed[-2]
    assert after[: len(before)] == before
    # Ids in placeholders are the conversation's, which starts with the exchange: texts are as long.
    assert [len(body) for body in killed] == [len(body) for body in whole]


LOSSES: list[Callable[[Batch], bool]] = [
    lambda batch: bool(batch.exchanges),
    lambda batch: bool(batch.outcomes),
    lambda batch: True,
]


@pytest.mark.parametrize("lost", range(len(LOSSES)), ids=["request", "reply", "everything"])
@pytest.mark.parametrize("policy", ["masks", "folds"])
def test_rows_that_were_lost_are_written_again_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, policy: str
) -> None:
    """A batch fails; later deltas must not build on it. After one more request a restart finds all of the branch."""
    stores = FlakyStores()
    monkeypatch.setattr("proxy.building.open_store", stores)
    settings: dict[str, object] = {"policy__options": MASKING if policy == "masks" else NEVER}
    if policy == "folds":
        settings["models"] = {"*": {"window": 4600}}
    db = tmp_path / "store.db"
    messages = start()
    with ScriptedUpstream(strict) as up:
        with served(up.base_url, db, **settings) as proxy:  # type: ignore[arg-type]
            for number in range(7):
                messages += turn(number) if policy == "masks" else [builders.user(builders.long_text(number, 3000))]
                if number == 4:
                    stores.last.loses = LOSSES[lost]
                reply = ok(proxy, messages)
                stores.last.loses = lambda batch: False
                messages.append(answered())
            assert stores.last.lost
        name = conversation(reply)
        assert (OMITTED if policy == "masks" else FOLDED) in up.requests[-1].body
        path = from_store(db, lambda store: path_of(store, name))
        assert len(path) == len(messages)
        window = reply.headers["x-undercliff-window"]
        assert from_store(db, lambda store: rendered(store, window)) == up.requests[-1].body
        with served(up.base_url, db, **settings) as proxy:  # type: ignore[arg-type]
            messages.append(builders.user("so?"))
            reply = ok(proxy, messages)
            assert conversation(reply) == name
        before, after = raw_messages(up.requests[-2].body), raw_messages(up.requests[-1].body)
        assert after[: len(before)] == before
    texts = Records(db).texts(name)
    assert all(any(f"row {number}: " in text for text in texts) for number in range(7))
    if policy == "folds":
        assert Records(db).folds(name)


async def path_of(store: Store, name: str) -> tuple[str, ...]:
    (branch,) = [row for row in await store.branches(name) if row.kind == "main"]
    return await store.path(branch.path)


async def rendered(store: Store, window: str) -> bytes:
    return await render_window(store, await find_window(store, window))


def test_a_store_that_refuses_at_once_stops_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = FlakyStores()
    monkeypatch.setattr("proxy.building.open_store", stores)
    with ScriptedUpstream(strict) as up, served(up.base_url, tmp_path / "store.db") as proxy:
        stores.last.raises = True
        messages = [*start(), answered(), *turn(1)]
        assert ok(proxy, messages).json()["choices"][0]["message"]["content"] == "noted"
        stores.last.raises = False
        messages.append(answered())
        messages += turn(2)
        name = conversation(ok(proxy, messages))
    assert len(from_store(tmp_path / "store.db", lambda store: path_of(store, name))) == len(messages) + 1
