"""Looking back: views at a turn, two windows compared, and what a window lacked, on what the product wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from proxy.errors import NotFoundError
from proxy.hindsight import compare_windows, find_holders, gather_at
from proxy.store.base import Store
from proxy.store.open import open_store
from tests.support.audited import fill


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("past") / "ctx.db"
    fill(db)
    return db


@pytest.fixture
async def store(filled: Path) -> AsyncIterator[Store]:
    store = open_store(filled)
    await store.open()
    yield store
    await store.aclose()


async def surveyed(store: Store) -> str:
    return next(one.id for one in await store.conversations() if one.first_text == "survey the harbour")


async def test_the_users_view_grows_turn_by_turn(store: Store) -> None:
    id = await surveyed(store)
    first, last = [await gather_at(store, id, "user", turn) for turn in ("1", "10")]
    assert len(first.items) < len(last.items) and first.items[1].text == "survey the harbour"
    assert last.items[: len(first.items)] == first.items
    assert not any("now compact" in item.text for item in first.items)


async def test_the_models_view_is_the_window_of_that_turn(store: Store) -> None:
    id = await surveyed(store)
    early, late = [await gather_at(store, id, "model", turn) for turn in ("1", "3")]
    assert {item.form for item in early.items} == {"full"} and "stub" in {item.form for item in late.items}
    exchanges = await store.exchanges(id)
    by_exchange = await gather_at(store, id, "model", exchanges[2][0].id)
    manifest = await store.window(exchanges[2][0].id)
    assert manifest is not None
    by_window = await gather_at(store, id, "model", manifest.window.id)
    assert by_exchange == by_window == late


async def test_the_archive_of_a_turn_is_what_its_window_lacks(store: Store) -> None:
    id = await surveyed(store)
    assert not (await gather_at(store, id, "archive", "1")).items
    last = str(len(await store.exchanges(id)))
    archive, model, user = [await gather_at(store, id, view, last) for view in ("archive", "model", "user")]  # type: ignore[arg-type]
    assert archive.items and all(item.is_summarized for item in archive.items)
    assert not {item.id for item in archive.items} & {item.id for item in model.items}
    assert {item.id for item in archive.items} < {item.id for item in user.items}


@pytest.mark.parametrize("turn", ["0", "99", "nothing"])
async def test_a_turn_that_is_none(store: Store, turn: str) -> None:
    with pytest.raises(NotFoundError, match="no turn"):
        await gather_at(store, await surveyed(store), "user", turn)


async def test_two_windows_compared(store: Store) -> None:
    id = await surveyed(store)
    windows = await store.windows(id)
    manifests = [manifest for window in windows if (manifest := await store.window(window))]
    kinds = set()
    for first, second in pairwise(manifests):
        found = compare_windows(first, second)
        kinds |= {one.change for one in found.changes}
        assert all(one.why for one in found.changes if one.change in ("form", "removed"))
        assert found.tokens == second.window.tokens_out - first.window.tokens_out
    assert kinds >= {"added", "form", "removed"}
    same = compare_windows(manifests[0], manifests[0])
    assert not same.changes and same.same_prefix == len(manifests[0].entries) and same.tokens == 0


async def test_what_was_missing(store: Store) -> None:
    id = await surveyed(store)
    windows = await store.windows(id)
    first, third, last = [await store.window(windows[place]) for place in (0, 2, -1)]
    assert first is not None and third is not None and last is not None
    (holder,) = await find_holders(store, first, "ROW 0: GAUGE")
    assert (holder.served, holder.still_holds) == ("full", True)
    (holder,) = await find_holders(store, third, "row 0: gauge")
    assert holder.served == "stub" and not holder.still_holds and holder.reason
    served = {one.served.split(" ")[0] for one in await find_holders(store, last, "row 0: gauge")}
    assert served <= {"folded", "absent"}
    assert {one.served for one in await find_holders(store, first, "now compact 3")} == {"not there yet"}
    assert not await find_holders(store, first, "no such words")
    with pytest.raises(NotFoundError):
        await find_holders(store, first, "")
