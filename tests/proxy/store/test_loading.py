"""Loading an export's rows: only known tables and columns, and nothing is left of a load that was not finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.errors import StoreError
from proxy.store.loading import Loader


def test_foreign_tables_and_columns_are_refused(tmp_path: Path) -> None:
    with Loader(tmp_path / "new.db") as loader:
        for table, row in (("keys", {"tenant": "t"}), ("branches", {"id, tenant) VALUES ('x'": "1"})):
            with pytest.raises(StoreError, match="unknown"):
                loader.state(table, row)


def test_what_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with Loader(tmp_path / "new.db") as loader:
        loader.chain("c")
        loader.body(b"hash", b"x")
    assert not list(tmp_path.iterdir())


def test_an_empty_store_in_its_place_is_replaced(tmp_path: Path) -> None:
    for _ in range(2):
        with Loader(tmp_path / "new.db") as loader:
            loader.finish()
    assert [file.name for file in tmp_path.iterdir()] == ["new.db"]
