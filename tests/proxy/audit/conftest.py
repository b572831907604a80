"""One store that the product filled, for all audit tests; each gets a copy of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.audited import copy_store, fill


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("audit") / "ctx.db"
    fill(db)
    return db


@pytest.fixture
def db(filled: Path, tmp_path: Path) -> Path:
    return copy_store(filled, tmp_path / "copy")
