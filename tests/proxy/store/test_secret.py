"""The key beside a store: made with the file, never beside a file that came without it, and found by all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from proxy.store.open import open_store
from proxy.store.secret import SECRET_BYTES, keep_secret, read_secret, secret_file


async def test_a_new_store_gets_a_key_and_a_copy_without_one_gets_none(tmp_path: Path) -> None:
    first, copy = tmp_path / "a.db", tmp_path / "copy" / "a.db"
    store = open_store(first)
    await store.open()
    await store.aclose()
    assert len(read_secret(first)) == SECRET_BYTES
    assert stat.S_IMODE(secret_file(first).stat().st_mode) == 0o600
    copy.parent.mkdir()
    copy.write_bytes(first.read_bytes())
    store = open_store(copy)
    await store.open()
    await store.aclose()
    assert read_secret(copy) == b"" and not secret_file(copy).exists()


def test_a_key_that_is_there_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.secret"
    assert keep_secret(path, b"k" * 32) == b"k" * 32 == keep_secret(path) == keep_secret(path, b"z" * 32)
    path.write_bytes(b"short")
    with pytest.raises(OSError, match="whole secret"):
        keep_secret(path)
