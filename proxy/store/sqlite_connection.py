"""Opens SQLite files, and turns sqlite3's errors into ours in this one place. Reads and writes no rows."""

from __future__ import annotations

import errno
import getpass
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Literal

from proxy.errors import StoreError
from proxy.store.migrations import APPLICATION_ID, MIGRATIONS, migrate, version_of

if sys.platform != "win32":
    import pwd

Synchronous = Literal["FULL", "NORMAL"]

BUSY_TIMEOUT_S = 10.0
_OPEN_TIMEOUT_S = 30.0  # long enough for another process to finish a migration
_WAL_LIMIT_BYTES = 64 << 20

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DENIED = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def connect_writer(path: Path, synchronous: Synchronous = "FULL") -> sqlite3.Connection:
    """The connection that writes, with the schema up to date. Creates file and folder, private to the user."""
    try:
        _prepare(path)
        connection = sqlite3.connect(path, timeout=_OPEN_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise store_error(error, path, "open") from error
    try:
        _check_ours(connection, path)
        _enter_wal(connection, path)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA recursive_triggers = ON")  # so that even REPLACE meets the delete guards
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        connection.execute("PRAGMA cache_size = -16000")
        migrate(connection)
        set_busy_timeout(connection, BUSY_TIMEOUT_S)
    except sqlite3.Error as error:
        connection.close()
        raise store_error(error, path, "open") from error
    except StoreError:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise store_error(error, path, "read") from error
    return connection


def set_busy_timeout(connection: sqlite3.Connection, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def store_error(error: BaseException, path: Path, doing: str) -> StoreError:
    """Our error for a foreign one: one line that names the file, and what the operator can do."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    number = error.errno if isinstance(error, OSError) else 0
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"no space left to {doing} {path}", hint="free space on that disk", is_full=True)
    if code in _LOCKED:
        return StoreError(f"cannot {doing} {path}: locked by another process", hint="find out what holds the file open")
    if code in _DENIED or isinstance(error, OSError):
        return StoreError(
            f"cannot {doing} {path} as {user_name()}: {_reason(error)}",
            hint=f"make {path.parent} writable for that user, or choose another file with --db",
        )
    if code in _DAMAGED:
        return StoreError(
            f"cannot {doing} {path}: {_reason(error)}",
            hint="the file is damaged or is no SQLite database: move it away, or restore a copy",
        )
    return StoreError(f"cannot {doing} {path}: {_reason(error)}")


def user_name() -> str:
    """The name and number of the user we run as; a container's user often has no name."""
    if sys.platform == "win32":
        return f"user {getpass.getuser()}"
    uid = os.geteuid()
    try:
        return f"user {pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__


def _prepare(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    # The write-ahead log is a second file beside it.
    if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, "the folder is not writable")


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    version = version_of(connection)
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer undercliff (schema {version}, this one knows {len(MIGRATIONS)})",
            hint="upgrade undercliff, or choose another file with --db",
        )
    # In this order: another process that is just creating the file commits tables and mark together.
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    mark = connection.execute("PRAGMA application_id").fetchone()[0]
    if tables and mark != APPLICATION_ID:
        raise StoreError(f"{path} is a SQLite database of another program", hint="choose another file with --db")


def _enter_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to write-ahead logging. SQLite does not wait for locks here, so two starting processes must."""
    deadline = time.monotonic() + _OPEN_TIMEOUT_S
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _LOCKED or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
            continue
        if mode != "wal":
            raise StoreError(
                f"{path} lies on a file system without write-ahead logging",
                hint="keep the file on a local disk, not on a network share",
            )
        return
