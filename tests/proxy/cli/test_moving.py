"""`undercliff migrate-store` where it cannot work; what it does is tested with proxy.store.moving."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.cli import moving
from proxy.errors import NotFoundError
from tests.support.sample_store import sample_store


def test_a_target_that_is_no_postgresql_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no PostgreSQL database"):
        moving.migrate_store(tmp_path / "a.db", str(tmp_path / "b.db"))


def test_a_file_without_its_key_is_refused(tmp_path: Path) -> None:
    path = sample_store(tmp_path)
    path.with_suffix(".secret").unlink()
    with pytest.raises(NotFoundError, match="no key file"):
        moving.migrate_store(path, "postgresql://127.0.0.1:1/x")


def test_another_stores_key_is_not_overwritten(tmp_path: Path) -> None:
    path = sample_store(tmp_path)
    (tmp_path / "shared.secret").write_bytes(b"x" * 32)
    config = tmp_path / "config.toml"
    config.write_text(f'[store]\nsecret_file = "{tmp_path / "shared.secret"}"\n')
    with pytest.raises(NotFoundError, match="another store's key"):
        moving.migrate_store(path, "postgresql://127.0.0.1:1/x", config)
    assert (tmp_path / "shared.secret").read_bytes() == b"x" * 32
