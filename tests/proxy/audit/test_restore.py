"""Round trip: what was exported comes back into an empty store, renders the same bytes, and verifies."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.audit.restore import restore
from proxy.core.filters import Filters
from proxy.errors import StoreError
from proxy.store.archive import Archive
from proxy.store.open import open_store
from proxy.views import gather
from tests.proxy.audit.test_verify import exported, told, verified
from tests.support.audited import windows_of


async def test_the_same_windows_render_byte_for_byte(db: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    rows = restore(exported(db), new)
    found, old = verified(new), verified(db)
    assert found.holds, told(found)
    assert (found.rows, found.heads) == (old.rows, old.heads) and rows == found.rows
    windows = await windows_of(db)
    assert len(windows) > 8 and await windows_of(new) == windows
    assert not list(tmp_path.glob("new.db.importing*"))


async def test_all_views_come_back(db: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    restore(exported(db), new)
    stores = [open_store(db), open_store(new)]
    for store in stores:
        await store.open()
    try:
        for one in await stores[0].conversations():
            (again,) = [other for other in await stores[1].conversations() if other.id == one.id]
            assert again == one
            for view in ("user", "model", "archive"):
                shown = [await gather(store, one.id, view) for store in stores]
                assert len(shown[0].items) == len(shown[1].items)
                for a, b in zip(shown[0].items, shown[1].items, strict=True):
                    assert (a.id, a.text, a.form, a.is_summarized) == (b.id, b.text, b.form, b.is_summarized)
                assert shown[0].folds == shown[1].folds
            assert len(await stores[1].folds(one.id)) == len(await stores[0].folds(one.id))
        assert await stores[1].search("harbour")
    finally:
        for store in stores:
            await store.aclose()


def test_an_export_of_an_import_is_the_same_but_for_its_numbers(db: Path, tmp_path: Path) -> None:
    from proxy.audit.reading import Reader

    new = tmp_path / "new.db"
    restore(exported(db), new)

    def rows(lines: list[bytes]) -> list[object]:
        return [
            (e.row.table.name, e.row.place, e.row.seal, e.row.values, e.data) for e in Reader().read(lines) if e.row
        ]

    assert rows(exported(new)) == rows(exported(db))


def test_a_damaged_export_is_refused_whole(db: Path, tmp_path: Path) -> None:
    lines = exported(db)
    place = next(i for i, line in enumerate(lines) if b"gauge" in line)
    lines[place] = lines[place].replace(b"gauge", b"gouge", 1)
    new = tmp_path / "new.db"
    with pytest.raises(StoreError, match="does not hold"):
        restore(lines, new)
    with pytest.raises(StoreError, match="broken off"):
        restore(exported(db)[:-1], new)
    assert not list(tmp_path.glob("new.db*"))


def test_only_into_an_empty_store(db: Path) -> None:
    with pytest.raises(StoreError, match="holds conversations already"):
        restore(exported(db), db)


def test_one_conversation_alone(db: Path, tmp_path: Path) -> None:
    with Archive(db) as archive:
        first = next(archive.all_chains(Filters()))
    restore(exported(db, Filters(conversations=(first.id,))), tmp_path / "new.db")
    with Archive(tmp_path / "new.db") as archive:
        assert [chain.id for chain in archive.all_chains(Filters())] == [first.id]
