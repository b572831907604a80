"""Chooses the store by its URL. Connects to nothing: `Store.open` does."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxy.core.records import Batch
from proxy.errors import ConfigError
from proxy.store.base import Store
from proxy.store.sqlite import SqliteStore
from proxy.store.sqlite_connection import Synchronous

_SQLITE = "sqlite:///"
_POSTGRES = ("postgres", "postgresql")


def open_store(
    url_or_path: str | Path,
    *,
    synchronous: str = "full",
    queue_mb: int = 64,
    on_batch: Callable[[Batch], None] = lambda batch: None,
    prepare: Callable[[Batch], Batch] | None = None,
    secret_file: Path | None = None,
    spool: Path | None = None,
    spool_mb: int = 1024,
) -> Store:
    """A plain path, `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://host/database`.

    `secret_file`, `spool` and `spool_mb` are for a database that several replicas share: see PostgresStore.
    `on_batch` sees every batch as it is submitted; `prepare` changes it before it is written.
    """
    text = str(url_or_path)
    path = file_of(text)
    if path is None:
        scheme = text.partition("://")[0].lower() if "://" in text else ""
        if is_postgres(text):
            store: Store = postgres_module("postgres").PostgresStore(
                text, max_queue_bytes=queue_mb << 20, on_batch=on_batch, prepare=prepare, secret_file=secret_file,
                spool=spool, max_spool_bytes=spool_mb << 20,
            )  # fmt: skip
            return store
        if scheme and scheme != "sqlite":
            raise ConfigError(
                f"db: unknown store {scheme}://", hint="give a file path, sqlite:///path or postgresql://host/db"
            )
        raise ConfigError(f"db: {text!r} names no file", hint="give a file path, or sqlite:///path")
    level: Synchronous = "NORMAL" if synchronous == "normal" else "FULL"
    return SqliteStore(
        path, synchronous=level, max_queue_bytes=queue_mb << 20, on_batch=on_batch, prepare=prepare
    )  # fmt: skip


def is_postgres(url: str) -> bool:
    scheme, is_url, _ = url.partition("://")
    return bool(is_url) and scheme.lower().partition("+")[0] in _POSTGRES


def postgres_module(name: str) -> Any:
    """A module of the PostgreSQL store, which needs an extra. Raises ConfigError without it."""
    try:
        return importlib.import_module(f"proxy.store.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise ConfigError(
            "db: PostgreSQL needs the extra postgres", hint="install it: pip install 'undercliff[postgres]'"
        ) from error
    except ImportError as error:  # psycopg without a libpq
        raise ConfigError(f"db: {error}", hint="install it: pip install 'undercliff[postgres]'") from error


def file_of(url_or_path: str) -> Path | None:
    """The file of a store that is one."""
    path = url_or_path[len(_SQLITE) :] if url_or_path.lower().startswith(_SQLITE) else url_or_path
    return None if "://" in path or path in ("", ":memory:") else Path(path).expanduser()
