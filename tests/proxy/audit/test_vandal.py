"""Somebody who can write the file, and knows how it works: what they change is found, column by column."""

from __future__ import annotations

import sqlite3
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from proxy.audit.verify import verify_export, verify_store
from proxy.core.filters import Filters
from proxy.store.archive import Archive
from proxy.store.codec import pack
from proxy.store.rows import columns
from proxy.store.seals import TABLES, from_columns, seal
from tests.proxy.audit.test_verify import exported, told, verified
from tests.support.audited import copy_store, writing


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if value is None:
        return 0.25
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:] if value else b"\x00x"
    return value + "x" if isinstance(value, str) else value + 1


def recompute(connection: sqlite3.Connection, number: int) -> None:
    """All seals of a chain anew, and its head: what the product itself would have written, but for the key."""
    rows = []
    for table in TABLES:
        found = connection.execute(
            f"SELECT place, seq, {columns(table.names)} FROM {table.name} WHERE chain = {number}"
        )
        rows += [(place, seq, table, from_columns(table, values)) for place, seq, *values in found]
    before, place = b"", 0
    for place, (_, seq, table, values) in enumerate(sorted(rows, key=lambda row: row[0]), start=1):
        before = seal(before, table.name, place, values)
        connection.execute(f"UPDATE {table.name} SET place = ?, seal = ? WHERE seq = ?", (place, before, seq))
    connection.execute("UPDATE chains SET length = ?, head = ? WHERE number = ?", (place, before, number))


def longest(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT number FROM chains ORDER BY length DESC").fetchone()[0])


def test_every_column_of_every_table_is_covered(filled: Path, tmp_path: Path) -> None:
    """One value each, also of bodies, chains and tombstones; only the numbers of bodies and of chains mean nothing."""
    db = copy_store(filled, tmp_path)
    tried = 0
    for table in [*(t.name for t in TABLES), "bodies", "chains"]:
        with writing(db) as connection:
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "seq"]
            keys = [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]
        for name in names if keys else ():
            with writing(db) as connection:
                kept = connection.execute(f'SELECT "{name}" FROM {table} WHERE rowid = ?', (keys[-1],)).fetchone()[0]
                row = keys[-1] if name != "number" else other(keys[-1])
                connection.execute(f'UPDATE {table} SET "{name}" = ? WHERE rowid = ?', (other(kept), keys[-1]))
            assert not verified(db).holds, f"{table}.{name}"
            with writing(db) as connection:
                connection.execute(f'UPDATE {table} SET "{name}" = ? WHERE rowid = ?', (kept, row))
            tried += 1
    assert tried > 100 and verified(db).holds


@pytest.mark.parametrize("what", ["edit", "cut", "swap"])
def test_a_chain_that_was_computed_anew_is_not_signed(db: Path, what: str) -> None:
    heads, key = verified(db).heads, db.with_suffix(".secret").read_bytes()
    with writing(db) as connection:
        number = longest(connection)
        first, second = (
            row[0]
            for row in connection.execute(f"SELECT seq FROM messages WHERE chain = {number} ORDER BY seq LIMIT 2")
        )
        if what == "edit":
            connection.execute(f"UPDATE messages SET role = 'system' WHERE seq = {second}")
        elif what == "cut":
            connection.execute(
                f"DELETE FROM outcomes WHERE seq = (SELECT max(seq) FROM outcomes WHERE chain = {number})"
            )
        else:
            connection.execute(f"UPDATE messages SET seq = -1 WHERE seq = {first}")
            connection.execute(f"UPDATE messages SET seq = {first} WHERE seq = {second}")
            connection.execute(f"UPDATE messages SET seq = {second} WHERE seq = -1")
            connection.execute(f"UPDATE messages SET place = -place WHERE seq IN ({first}, {second})")
            places = [
                row[0] for row in connection.execute(f"SELECT place FROM messages WHERE seq IN ({first}, {second})")
            ]
            connection.execute(f"UPDATE messages SET place = {-max(places)} WHERE seq = {first}")
            connection.execute(f"UPDATE messages SET place = {-min(places)} WHERE seq = {second}")
        recompute(connection, number)
    found = verified(db)
    assert [problem.kind for problem in found.problems] == ["unsigned"], told(found)
    with Archive(db) as archive:
        alone = verify_store(archive, secret=None)
    assert alone.holds and "computed anew" not in alone.heads and "anew" in alone.notes[-1]
    assert alone.heads != heads  # what was noted elsewhere shows it too
    lines = exported(db)
    assert verify_export(lines).holds and any("anew" in note for note in verify_export(lines).notes)
    assert [p.kind for p in verify_export(lines, secret=key).problems] == ["unsigned"]


def test_an_export_that_was_written_anew_is_not_signed(db: Path) -> None:
    """State lines have no seals: the sum covers them, and the signature covers the sum."""
    key = db.with_suffix(".secret").read_bytes()
    assert verify_export(exported(db), secret=key).holds
    assert verify_export(exported(db, Filters(model="other-2")), secret=key).holds
    db.with_suffix(".secret").write_bytes(b"x" * 32)
    forged = exported(db)
    assert "as a whole" in told(verify_export(forged, secret=key))
    db.with_suffix(".secret").unlink()
    assert "as a whole" in told(verify_export(exported(db), secret=key)) and verify_export(exported(db)).holds


def test_a_body_cannot_pass_as_redacted(db: Path) -> None:
    """A mark of redaction says what the bytes hash to; it counts when a sealed row says so too."""
    data = b'{"role":"user","content":"something else"}'
    with writing(db) as connection:
        mark = blake2b(data, digest_size=16).digest()
        number = connection.execute(
            "SELECT seq FROM bodies WHERE hash = (SELECT body FROM messages LIMIT 1)"
        ).fetchone()
        connection.execute(
            "UPDATE bodies SET data = ?, size = ?, redacted = ? WHERE seq = ?", (pack(data), len(data), mark, *number)
        )
    assert "the body" in told(verified(db))
    assert "the original of" in told(verify_export(exported(db)))


def test_a_store_whose_key_was_replaced_says_so(db: Path) -> None:
    db.with_suffix(".secret").write_bytes(b"z" * 32)
    assert {p.kind for p in verified(db).problems} == {"unsigned"}
