"""Chooses the store by its URL. Connects to nothing: `Store.open` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
) -> Store:
    """A plain path, `sqlite:///relative.db` or `sqlite:////absolute.db`.

    `on_batch` sees every batch as it is submitted; `prepare` changes it before it is written.
    """
    text = str(url_or_path)
    path = file_of(text)
    if path is None:
        scheme = text.partition("://")[0].lower() if "://" in text else ""
        if scheme.partition("+")[0] in _POSTGRES:
            raise ConfigError(
                "db: this build has no PostgreSQL store yet", hint="give a file path, or sqlite:///path, instead"
            )
        if scheme and scheme != "sqlite":
            raise ConfigError(f"db: unknown store {scheme}://", hint="give a file path, or sqlite:///path")
        raise ConfigError(f"db: {text!r} names no file", hint="give a file path, or sqlite:///path")
    level: Synchronous = "NORMAL" if synchronous == "normal" else "FULL"
    return SqliteStore(
        path, synchronous=level, max_queue_bytes=queue_mb << 20, on_batch=on_batch, prepare=prepare
    )  # fmt: skip


def file_of(url_or_path: str) -> Path | None:
    """The file of a store that is one."""
    path = url_or_path[len(_SQLITE) :] if url_or_path.lower().startswith(_SQLITE) else url_or_path
    return None if "://" in path or path in ("", ":memory:") else Path(path).expanduser()
