"""A store for a test of several processes: files in its folder, or databases on the shared server."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.postgres import binaries, drop_database, new_database

KINDS = ["sqlite", "postgres"]


class Stores:
    """Named stores of one kind. `place` is what `store.url` takes."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._folder = folder
        self._urls: dict[str, str] = {}

    def place(self, name: str) -> str:
        if self.kind == "sqlite":
            return str(self._folder / f"{name}.db")
        if name not in self._urls:
            self._urls[name] = new_database()
        return self._urls[name]

    def copy(self, name: str, to: str) -> None:
        """What another process would find if those that hold it died now."""
        source, target = self.place(name), self.place(to)
        if self.kind == "sqlite":
            with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
                one.backup(other)
            Path(target).with_suffix(".secret").write_bytes(Path(source).with_suffix(".secret").read_bytes())
            return
        found = binaries()
        assert found is not None
        dump = subprocess.run([found / "pg_dump", "-d", source], stdout=subprocess.PIPE, check=True)
        load = [found / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", target]
        subprocess.run(load, input=dump.stdout, stdout=subprocess.DEVNULL, check=True)

    def drop(self) -> None:
        for url in self._urls.values():
            drop_database(url)


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    """One test over both kinds."""
    if request.param == "postgres" and binaries() is None:
        pytest.skip("no PostgreSQL server here: install Debian's package postgresql (.ci/machine does)")
    made = Stores(request.param, tmp_path)
    yield made
    made.drop()
