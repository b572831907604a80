"""Erases conversations on an explicit order, and puts signed tombstones in their place. The only way to delete.

It needs the file for itself: no server may hold it. Nothing of the text stays: not in free pages, not in the
write-ahead log, not in the search index. Copies made before (backups, exports) are beyond its reach.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from proxy.errors import StoreError
from proxy.store.archive import STATE_TABLES, ChainLine, Tombstone
from proxy.store.codec import storable, unpack_entries, unpack_text
from proxy.store.database import Database, stream
from proxy.store.rows import any_of, chunks
from proxy.store.seals import STRAY, TABLES
from proxy.store.sqlite_connection import connect_writer, store_error
from proxy.store.tombstones import signed

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def erase(path: Path, chains: Sequence[ChainLine], *, secret: bytes, reason: str, at: str) -> None:
    """Remove everything that belongs to these chains. Raises `StoreError`; then nothing is removed."""
    with closing(connect_writer(path)) as connection:
        try:
            _take_alone(connection, path)
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN EXCLUSIVE")
            try:
                triggers = _drop_guards(connection)
                for chain in chains:
                    _unindex(connection, chain.number)
                    erase_chain(connection, chain, signed(stone(chain, reason, at), secret))
                for statement in triggers:
                    connection.execute(statement)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            connection.execute("INSERT INTO items_fts (items_fts) VALUES ('optimize')")
            connection.execute("VACUUM")
        except sqlite3.Error as error:
            raise store_error(error, path, "erase from") from error


def _take_alone(connection: sqlite3.Connection, path: Path) -> None:
    """Leave write-ahead logging, which only the last connection can: so no copy of a page stays in the log."""
    try:
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _BUSY:
            raise
        mode = "wal"
    if mode != "delete":
        raise StoreError(f"{path} is in use", hint="Stop the server that has it open, then order it again.")


def stone(chain: ChainLine, reason: str, at: str) -> Tombstone:
    return Tombstone(chain.number, chain.id, chain.tenant, chain.length, chain.head, reason, at)


def _drop_guards(connection: sqlite3.Connection) -> list[str]:
    """Take the triggers away inside this transaction; what to run to have them back."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in found:
        connection.execute(f"DROP TRIGGER {name}")
    return [sql for _, sql in found]


def erase_chain(connection: Database, chain: ChainLine, stone: Tombstone) -> None:
    """Rows, state and bodies of one chain, inside an open transaction; whoever calls it knows of the index."""
    bodies = set(_bodies(connection, chain.number))
    for table in TABLES:
        connection.execute(f"DELETE FROM {table.name} WHERE chain = ?", (chain.number,))  # noqa: S608
    if not chain.id.startswith(STRAY):
        _erase_state(connection, chain.id)
    for some in chunks(sorted(_unused(connection, bodies))):
        connection.execute(any_of("DELETE FROM bodies WHERE hash IN (?*)", len(some)), some)
        connection.execute(any_of("DELETE FROM token_counts WHERE body IN (?*)", len(some)), some)
    connection.execute("DELETE FROM chains WHERE number = ?", (chain.number,))
    connection.execute(
        "INSERT INTO tombstones (number, conversation, tenant, length, head, reason, erased_at, signature)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (stone.number, stone.conversation, stone.tenant, stone.length, stone.head, stone.reason, stone.erased_at,
         stone.signature),
    )  # fmt: skip


def _erase_state(connection: Database, conversation: str) -> None:
    branches = [row[0] for row in connection.execute("SELECT id FROM branches WHERE conversation = ?", (conversation,))]
    for some in chunks(branches):
        numbers = any_of("SELECT number FROM branch_numbers WHERE id IN (?*)", len(some))
        connection.execute(f"DELETE FROM keys WHERE branch IN ({numbers})", some)  # noqa: S608 - our own statement
        connection.execute(any_of("DELETE FROM branch_numbers WHERE id IN (?*)", len(some)), some)
    for table in STATE_TABLES:
        connection.execute(f"DELETE FROM {table} WHERE conversation = ?", (conversation,))  # noqa: S608
    connection.execute("DELETE FROM conversations WHERE id = ?", (conversation,))


def _unindex(connection: sqlite3.Connection, chain: int) -> None:
    """The index keeps no text: a message is taken out by telling it the very words that were put in."""
    (done,) = connection.execute("SELECT indexed_to FROM search_index").fetchone()
    rows = connection.execute("SELECT seq, text FROM messages WHERE chain = ? AND seq <= ?", (chain, done))
    for seq, packed in rows:
        if text := unpack_text(packed):
            connection.execute(
                "INSERT INTO items_fts (items_fts, rowid, text) VALUES ('delete', ?, ?)",
                (seq, storable(text).replace("\0", " ")),
            )


def _bodies(connection: Database, chain: int | None) -> Iterator[bytes]:
    """Hashes that the rows of one chain, or of all that is left, speak of."""
    where, values = ("", ()) if chain is None else (" WHERE chain = ?", (chain,))
    for table in ("messages", "summaries"):
        yield from (row[0] for row in stream(connection, f"SELECT body FROM {table}{where}", values))  # noqa: S608
    for prefix, suffix, tail in stream(connection, f"SELECT prefix, suffix, tail FROM windows{where}", values):  # noqa: S608
        yield prefix
        yield suffix
        for entry in unpack_entries(tail):
            yield entry.body


def _unused(connection: Database, bodies: set[bytes]) -> set[bytes]:
    """Those that no row speaks of any more: equal bytes of another conversation are the same body."""
    left = set(bodies)
    for hash in _bodies(connection, None):
        left.discard(hash)
    return left


def back_up(path: Path, target: Path) -> None:
    """Copy a store that may be in use, as it is at one moment, through SQLite's own online copy."""
    draft = target.with_name(f"{target.name}.part")
    draft.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
            draft.touch(0o600)
            with closing(sqlite3.connect(draft)) as copy:
                source.backup(copy, pages=1024, sleep=0.01)
                copy.execute("PRAGMA journal_mode = DELETE")
        draft.replace(target)
    except (sqlite3.Error, OSError) as error:
        raise store_error(error, path, "copy") from error
    finally:
        draft.unlink(missing_ok=True)
