from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy import views
from proxy.errors import NotFoundError, StoreError
from proxy.store.base import Store
from proxy.store.open import open_store
from tests.support import sample_store as sample


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(tmp_path / "x.db")
    await sample.fill(store, sample.rows(extra_conversation="k3x0other"))
    store = open_store(tmp_path / "x.db")
    await store.open()
    yield store
    await store.aclose()


@pytest.mark.parametrize("prefix", [sample.CONVERSATION, "k3x9", "k3x9a7b2c4d"])
async def test_conversations_are_found_by_unique_prefix(store: Store, prefix: str) -> None:
    assert (await views.find_conversation(store, prefix)).id == sample.CONVERSATION


@pytest.mark.parametrize(
    ("prefix", "message"),
    [("k3x", "the start of 2"), ("zzz", "there is no"), ("", "there is no"), ("%", "there is no")],
)
async def test_ambiguous_and_unknown_prefixes_say_so(store: Store, prefix: str, message: str) -> None:
    with pytest.raises(NotFoundError, match=message) as caught:
        await views.find_conversation(store, prefix)
    assert caught.value.hint


async def test_a_whole_id_beats_longer_ones() -> None:
    assert views.pick_by_prefix(["ab", "abc"], "ab", "thing", hint="") == "ab"


@pytest.mark.parametrize("id", [sample.WINDOW, sample.EXCHANGE, "w5cc", "k3x9", sample.CONVERSATION])
async def test_windows_are_found_by_every_id(store: Store, id: str) -> None:
    assert (await views.find_window(store, id)).window.id == sample.WINDOW


@pytest.mark.parametrize(
    ("id", "message"), [("k3x0", "has no window"), ("nope", "no window 'nope'"), ("", "no window")]
)
async def test_windows_that_are_not_there(store: Store, id: str, message: str) -> None:
    with pytest.raises(NotFoundError, match=message):
        await views.find_window(store, id)


async def test_the_user_sees_every_message(store: Store) -> None:
    shown = await views.gather(store, "k3x9", "user")
    assert [item.id for item in shown.items] == list(sample.RAW)
    by_id = {item.id: item for item in shown.items}
    assert by_id["i3result"].text == sample.OUTPUT_TEXT
    assert 'search({"q":"broken"})' in by_id["i2call"].text
    assert shown.folds[0].tokens_after == 60


async def test_the_model_s_view_shows_what_the_model_got(tmp_path: Path) -> None:
    store = open_store(tmp_path / "unfolded.db")
    await store.open()
    for batch in sample.rows()[:2]:
        await store.submit(batch)
    shown = {item.id: item for item in (await views.gather(store, "k3x9", "model")).items}
    await store.aclose()
    assert (shown["i3result"].form, shown["i3result"].text) == ("stub", "[output omitted from history]")
    assert (shown["i1user"].form, shown["i2call"].form) == ("full", "full")


async def test_the_model_and_the_archive_split_the_rows(store: Store) -> None:
    model = await views.gather(store, "k3x9", "model")
    archive = await views.gather(store, "k3x9", "archive", branch="b7")
    assert model.branch == archive.branch == sample.BRANCH
    assert [item.origin for item in model.items] == ["i0system", "i1user", "i4answer"]
    assert not any(item.is_summarized for item in model.items)
    assert [item.id for item in archive.items] == list(sample.RAW)
    assert all(item.is_summarized for item in archive.items)


async def test_unknown_branch(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no branch 'zz'"):
        await views.gather(store, "k3x9", "model", branch="zz")


async def test_window_renders_to_what_was_sent(store: Store) -> None:
    manifest = await views.find_window(store, sample.WINDOW)
    assert await views.render_window(store, manifest) == sample.SENT


async def test_a_window_that_differs_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path / "bad.db")
    await sample.fill(store, sample.rows(out_hash="0" * 64))
    store = open_store(tmp_path / "bad.db")
    await store.open()
    try:
        with pytest.raises(StoreError, match="does not render"):
            await views.render_window(store, await views.find_window(store, sample.WINDOW))
    finally:
        await store.aclose()


async def test_window_says_why(store: Store) -> None:
    shown = views.show_window(await views.find_window(store, sample.WINDOW))
    assert [entry.form for entry in shown.entries] == ["full", "full", "full", "stub"]
    assert shown.entries[3].reason == "old output, 600 characters"
    assert (shown.conversation, shown.billed_input, shown.outcome) == (sample.CONVERSATION, 1234, "ok")


async def test_originals_come_back_byte_for_byte(store: Store) -> None:
    for id, raw in sample.RAW.items():
        assert (await views.fetch_item(store, id)).data == raw
    with pytest.raises(NotFoundError, match="no item 'i9'"):
        await views.fetch_item(store, "i9")
