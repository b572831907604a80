"""Resolves paths and windows, which are kept as deltas, by walking from the last row to its bases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from proxy.core.records import Entry, Manifest, WindowRow
from proxy.errors import StoreError
from proxy.store import reader
from proxy.store.codec import unpack_blobs, unpack_entries, unpack_strings
from proxy.store.database import Database
from proxy.store.rows import WINDOW_FIELDS, columns

T = TypeVar("T")

_PATH_SQL = "SELECT base, keep, tail FROM paths WHERE id = ?"
_LINK_SQL = "SELECT base, keep, tail FROM windows WHERE id = ?"
_WINDOW_SQL = f"SELECT {columns(WINDOW_FIELDS)}, tail, gaps FROM windows"  # noqa: S608 - our own names
_MAX_DEPTH = 100_000


def path(connection: Database, path_id: str) -> tuple[str, ...]:
    """The item ids; none for an unknown path, and none where a gap has eaten a base: both mean "not known"."""
    if not path_id:
        return ()
    resolved = _resolve(connection, _PATH_SQL, path_id, unpack_strings)
    return () if resolved is None else resolved


def window(connection: Database, id: str) -> Manifest | None:
    """The manifest by window id or exchange id; StoreError where a gap has eaten a base."""
    row = connection.execute(f"{_WINDOW_SQL} WHERE id = ?", (id,)).fetchone()
    if row is None:
        row = connection.execute(
            f"{_WINDOW_SQL} WHERE exchange = ? ORDER BY attempt DESC, seq DESC LIMIT 1", (id,)
        ).fetchone()
    if row is None:
        return None
    *values, tail, gaps = row
    fields = dict(zip(WINDOW_FIELDS, values, strict=True))
    found = WindowRow(**fields, tail=unpack_entries(tail), gaps=unpack_blobs(gaps))
    entries: tuple[Entry, ...] | None = _resolve(connection, _LINK_SQL, found.id, unpack_entries)
    if entries is None:
        raise StoreError(
            f"window {found.id} cannot be rebuilt: a row that it builds on was not written",
            hint="the store was full or locked at that time; see the table gaps",
        )
    exchange, outcome = reader.exchange(connection, found.exchange) or (None, None)
    return Manifest(found, entries, exchange, outcome)


def _resolve(
    connection: Database, statement: str, id: str, decode: Callable[[bytes], tuple[T, ...]]
) -> tuple[T, ...] | None:
    """The first `keep` of the base, then the tail, for as many bases as there are. None when one is missing.

    Walks from the last row to the first and takes of each only what survives, so memory holds the
    result and one row.
    """
    parts: list[tuple[T, ...]] = []
    wanted: int | None = None  # how many from the front of the current row are still asked for; None: all
    for _ in range(_MAX_DEPTH):
        row = connection.execute(statement, (id,)).fetchone()
        if row is None:
            return None
        base, keep, packed = row
        if not base:
            keep = 0
        tail = decode(packed) if wanted is None or wanted > keep else ()
        if wanted is not None:
            if wanted > keep + len(tail):
                return None
            tail = tail[: max(wanted - keep, 0)]
            keep = min(keep, wanted)
        parts.append(tail)
        if keep == 0:
            return tuple(entry for part in reversed(parts) for entry in part)
        id, wanted = base, keep
    return None
