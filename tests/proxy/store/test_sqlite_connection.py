"""Opening: private files, and one clear line when it cannot be."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.errors import StoreError
from proxy.store.sqlite import SqliteStore
from proxy.store.sqlite_connection import connect_reader, connect_writer, store_error

_ROOT = Path(__file__).resolve().parents[3]
_NOBODY = 65534
# Becomes that user only after its imports: the interpreter itself may lie in a private folder.
_AS_NOBODY = """
import json, os, sys
from pathlib import Path
from proxy.errors import StoreError
from proxy.store.sqlite_connection import connect_writer
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
try:
    connect_writer(Path(sys.argv[1])).close()
    print(json.dumps(["opened", ""]))
except StoreError as error:
    print(json.dumps([str(error), error.hint]))
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that another user can reach; pytest's own ones are private."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def open_as_nobody(path: Path) -> tuple[str, str]:
    started = time.monotonic()
    child = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(path), str(_NOBODY)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert time.monotonic() - started < 10  # the start of an interpreter included
    message, hint = json.loads(child.stdout)
    return message, hint


async def test_file_and_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "ctx.db"
    old = os.umask(0)
    try:
        store = SqliteStore(path)
        await store.open()
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
        await store.aclose()
    finally:
        os.umask(old)
    assert modes == dict.fromkeys(("ctx.db", "ctx.db-wal", "ctx.db-shm", "ctx.secret"), 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("place", ["file/ctx.db", "file/deep/ctx.db", "folder"])
async def test_an_impossible_place_is_named_at_once(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("a regular file")
    (tmp_path / "folder").mkdir()
    path = tmp_path / place
    started = time.monotonic()
    with pytest.raises(StoreError) as caught:
        await SqliteStore(path).open()
    assert time.monotonic() - started < 3
    assert str(path) in str(caught.value)
    assert f"uid {os.geteuid()}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


@needs_root
@pytest.mark.parametrize("case", ["folder of another user", "file writable but folder not", "file of another user"])
def test_missing_permission_names_path_user_and_remedy(shared_folder: Path, case: str) -> None:
    path = shared_folder / "ctx.db"
    if case != "folder of another user":
        connect_writer(path).close()
        path.chmod(0o666 if case == "file writable but folder not" else 0o644)
    if case == "file of another user":
        shared_folder.chmod(0o777)
    message, hint = open_as_nobody(path)
    assert str(path) in message
    assert f"uid {_NOBODY}" in message
    assert "\n" not in message
    assert str(shared_folder) in hint


@needs_root
def test_a_folder_of_its_own_is_enough(shared_folder: Path) -> None:
    shared_folder.chmod(0o777)
    assert open_as_nobody(shared_folder / "new" / "ctx.db") == ("opened", "")


@needs_root
def test_a_read_only_mount_is_named(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount here")
    try:
        connect_writer(tmp_path / "ctx.db").close()
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)
        for name in ("ctx.db", "other.db"):
            with pytest.raises(StoreError, match="read-only file system") as caught:
                connect_writer(tmp_path / name)
            assert "--db" in caught.value.hint
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        connect_writer(path)
    assert path.read_bytes() == before


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    connection = connect_writer(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(StoreError, match="newer undercliff") as caught:
        connect_writer(path)
    assert "upgrade" in caught.value.hint


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, not a database. " * 100)
    with pytest.raises(StoreError, match="not a database") as caught:
        connect_writer(path)
    assert "move it away" in caught.value.hint
    assert path.read_text().startswith("these are notes")


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "a b%20?#.db"
    connect_writer(path).close()
    with (
        contextlib.closing(connect_reader(path)) as reader,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        reader.execute("CREATE TABLE x (y)")


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_durability_is_as_asked(tmp_path: Path, synchronous: str) -> None:
    with contextlib.closing(connect_writer(tmp_path / "x.db", synchronous)) as connection:  # type: ignore[arg-type]
        assert connection.execute("PRAGMA synchronous").fetchone() == ({"FULL": 2, "NORMAL": 1}[synchronous],)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA recursive_triggers").fetchone() == (1,)


def test_lack_of_space_is_told_apart() -> None:
    assert store_error(OSError(28, "No space left on device"), Path("x"), "write").is_full
    assert not store_error(OSError(13, "Permission denied"), Path("x"), "write").is_full
