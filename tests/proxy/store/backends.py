"""The backends that the contract suite runs over. A new one is one more entry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.store.base import Store
from proxy.store.open import open_store
from tests.support.postgres import binaries, drop_database, new_database


def _sqlite(folder: Path) -> Store:
    return open_store(folder / "store" / "ctx.db")


def _postgres(folder: Path) -> Store:
    """A database that stays the same for one folder."""
    url = _databases.get(folder)
    if url is None:
        url = _databases[folder] = new_database()
    return open_store(url, secret_file=folder / "store" / "ctx.secret", spool=folder / "spool")


def discard(folder: Path) -> None:
    """What was made for a folder and is not in it."""
    if (url := _databases.pop(folder, None)) is not None:
        drop_database(url)


_databases: dict[Path, str] = {}

BACKENDS: dict[str, Callable[[Path], Store]] = {"sqlite": _sqlite, "postgres": _postgres}

without_postgres = pytest.mark.skipif(
    binaries() is None, reason="no PostgreSQL server here: install Debian's package postgresql (.ci/machine does)"
)
BACKEND_PARAMS = [name if name == "sqlite" else pytest.param(name, marks=without_postgres) for name in BACKENDS]
HERE: dict[str, Callable[[Path], Store]] = {
    name: make for name, make in BACKENDS.items() if name == "sqlite" or binaries() is not None
}
