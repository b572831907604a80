"""What the store's statements run on."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

from proxy.store.database import Database, stream


def test_a_connection_of_sqlite_is_one_and_streams_as_it_is(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        database: Database = connection
        rows = stream(database, "SELECT ? UNION SELECT ? ORDER BY 1", (1, 2))
        assert rows.fetchone() == (1,)
        assert list(rows) == [(2,)]


def test_another_streams_in_its_own_way() -> None:
    class Other:
        def execute(self, statement: str, values: Any = ()) -> Any:
            raise AssertionError(statement)

        def stream(self, statement: str, values: Any) -> Any:
            return iter([statement, values])

    other: Any = Other()
    assert list(stream(other, "a", (1,))) == ["a", (1,)]
