"""Chooses the store by its URL. Connects to nothing: `Store.open` does."""

from __future__ import annotations

from pathlib import Path

from proxy.errors import ConfigError
from proxy.store.base import Store
from proxy.store.sqlite import SqliteStore
from proxy.store.sqlite_connection import Synchronous

_SQLITE = "sqlite:///"
_POSTGRES = ("postgres", "postgresql")


def open_store(url_or_path: str | Path, *, synchronous: str = "full", queue_mb: int = 64) -> Store:
    """A plain path, `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    text = str(url_or_path)
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme.partition("+")[0] in _POSTGRES:
        raise ConfigError(
            "db: this build has no PostgreSQL store yet", hint="give a file path, or sqlite:///path, instead"
        )
    path = text
    if scheme:
        if not text.lower().startswith(_SQLITE):
            raise ConfigError(f"db: unknown store {scheme}://", hint="give a file path, or sqlite:///path")
        path = text[len(_SQLITE) :]
    if not path or path == ":memory:":
        raise ConfigError(f"db: {text!r} names no file", hint="give a file path, or sqlite:///path")
    level: Synchronous = "NORMAL" if synchronous == "normal" else "FULL"
    return SqliteStore(Path(path).expanduser(), synchronous=level, max_queue_bytes=queue_mb << 20)
