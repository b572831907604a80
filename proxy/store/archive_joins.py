"""What an export joins to a row: its outcome, sizes, the path of a branch. Plain functions over a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.store import deltas
from proxy.store.codec import unpack
from proxy.store.database import Database
from proxy.store.rows import any_of, chunks, columns
from proxy.store.seals import BY_NAME, from_columns

_LEAF_SQL = (
    "SELECT path FROM branches WHERE conversation = ? AND path <> '' ORDER BY kind = 'main' DESC, touched DESC LIMIT 1"
)
_LAST_FRAME_SQL = (
    "SELECT prefix, suffix FROM windows WHERE exchange IN (SELECT id FROM exchanges WHERE conversation = ?)"
    " ORDER BY seq DESC LIMIT 1"
)


def outcome(connection: Database, exchange: str) -> dict[str, Any]:
    """The outcome's plain values by name; nothing for an exchange that has none yet."""
    return _one(connection, "outcomes", "exchange = ?", exchange)


def last_window(connection: Database, exchange: str) -> dict[str, Any]:
    """The window of its last attempt."""
    return _one(connection, "windows", "exchange = ? ORDER BY attempt DESC, seq DESC", exchange)


def body_sizes(connection: Database, hashes: Sequence[bytes]) -> dict[bytes, int]:
    sizes: dict[bytes, int] = {}
    for some in chunks(list(dict.fromkeys(hashes))):
        statement = any_of("SELECT hash, size FROM bodies WHERE hash IN (?*)", len(some))
        sizes.update(connection.execute(statement, some).fetchall())
    return sizes


def item_sizes(connection: Database, conversation: str, ids: Sequence[str]) -> dict[str, int]:
    """How large the originals behind these items are, in bytes."""
    sizes: dict[str, int] = {}
    for some in chunks(list(dict.fromkeys(ids))):
        statement = any_of(
            "SELECT m.id, b.size FROM messages m JOIN bodies b ON b.hash = m.body"
            " WHERE m.conversation = ? AND m.id IN (?*)",
            len(some),
        )
        sizes.update(connection.execute(statement, (conversation, *some)).fetchall())
    return sizes


def leaf_path(connection: Database, conversation: str) -> tuple[str, ...]:
    """The items of the newest top-level branch, in order."""
    row = connection.execute(_LEAF_SQL, (conversation,)).fetchone()
    return deltas.path(connection, row[0]) if row else ()


def last_frame(connection: Database, conversation: str) -> bytes:
    """The request around the list as it last went out, the list empty; nothing where there was no window."""
    row = connection.execute(_LAST_FRAME_SQL, (conversation,)).fetchone()
    parts = []
    for hash in row or ():
        found = connection.execute("SELECT data FROM bodies WHERE hash = ?", (hash,)).fetchone()
        parts.append(unpack(found[0]) if found else b"")
    return b"".join(parts)


def originals(connection: Database, conversation: str, ids: Sequence[str]) -> list[bytes]:
    """The bytes of the items, in the order asked."""
    found: dict[str, bytes] = {}
    statement = any_of(
        "SELECT m.id, b.data FROM messages m JOIN bodies b ON b.hash = m.body"
        " WHERE m.conversation = ? AND m.id IN (?*)",
        len(ids),
    )
    for id, data in connection.execute(statement, (conversation, *ids)):
        found[id] = unpack(data)
    return [found[id] for id in ids if id in found]


def _one(connection: Database, name: str, condition: str, value: str) -> dict[str, Any]:
    table = BY_NAME[name]
    statement = f"SELECT {columns(table.names)} FROM {name} WHERE {condition} LIMIT 1"  # noqa: S608 - our own names
    row = connection.execute(statement, (value,)).fetchone()
    return dict(zip(table.names, from_columns(table, row), strict=True)) if row else {}
