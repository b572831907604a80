"""Verification finds what was changed, taken out, cut or moved, in the store and in an export, and names it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxy.audit.checking import ChainCheck, RecentBodies
from proxy.audit.jsonl import write
from proxy.audit.reading import Reader
from proxy.audit.verify import Verified, verify_export, verify_store
from proxy.core.filters import Filters
from proxy.store.archive import Archive
from proxy.store.seals import TABLES
from tests.support.audited import writing

SEED = random.Random(4272)


def verified(db: Path) -> Verified:
    with Archive(db) as archive:
        return verify_store(archive, secret=db.with_suffix(".secret").read_bytes())


def exported(db: Path, filters: Filters | None = None) -> list[bytes]:
    with Archive(db) as archive:
        return list(write(archive, filters or Filters(), exported_at="2026-01-01T00:00:00.000000Z", version="1"))


def told(found: Verified) -> str:
    return "\n".join(str(problem) for problem in found.problems)


def test_what_the_product_wrote_holds(db: Path) -> None:
    found = verified(db)
    assert found.holds, told(found)
    assert found.chains == 3 and found.rows > 80 and found.bodies > 30
    again = verify_export(exported(db))
    assert again.holds and (again.chains, again.rows, again.heads) == (found.chains, found.rows, found.heads)


def flipped(value: Any, choose: random.Random) -> Any:
    """The value with one bit the other way round."""
    if isinstance(value, int):
        return value ^ 1 << choose.randrange(8)
    if isinstance(value, float):
        return value + 2.0 ** choose.randrange(-20, 8)
    data = bytearray(value if isinstance(value, bytes) else value.encode())
    if not data:
        return None
    data[choose.randrange(len(data))] ^= 1 << choose.randrange(8 if isinstance(value, bytes) else 4)
    return bytes(data) if isinstance(value, bytes) else data.decode("utf-8", "surrogateescape").encode(
        "utf-8", "surrogateescape"
    )  # fmt: skip


def flip_one(db: Path, choose: random.Random) -> str:
    """One bit of one value of one row, of any sealed table, the bodies or the heads."""
    with writing(db) as connection:
        tables = [t.name for t in TABLES] + ["bodies", "chains"]
        tables = [t for t in tables if connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0]]
        while True:
            table = choose.choice(tables)
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] != "seq"]
            name = choose.choice(names)
            count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            place = choose.randrange(count)
            number, value = connection.execute(
                f'SELECT rowid, "{name}" FROM {table} ORDER BY rowid LIMIT 1 OFFSET ?', (place,)
            ).fetchone()
            if value is None or (new := flipped(value, choose)) is None or new == value:
                continue
            mark = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
            try:
                connection.execute(f'UPDATE {table} SET "{name}" = {mark} WHERE rowid = ?', (new, number))
            except sqlite3.IntegrityError:
                continue  # it would collide with another row
            return f"{table}.{name} of row {number}"


def test_one_flipped_bit_of_the_store_is_found(filled: Path, tmp_path: Path) -> None:
    from tests.support.audited import copy_store

    for number in range(60):
        db = copy_store(filled, tmp_path / str(number))
        where = flip_one(db, SEED)
        assert not verified(db).holds, where


def test_one_flipped_bit_of_an_export_is_found(db: Path) -> None:
    lines = exported(db)
    whole = b"".join(lines)
    for _ in range(120):
        place = SEED.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[place] ^= 1 << SEED.randrange(8)
        found = verify_export(bytes(damaged).splitlines(keepends=True))
        assert not found.holds, f"byte {place}"


Damage = Callable[[sqlite3.Connection], Any]


def run(statement: str) -> Damage:
    return lambda connection: connection.execute(statement)


def swap_texts(connection: sqlite3.Connection) -> None:
    """Two messages exchange their places in the chain, seals and all."""
    chain = connection.execute("SELECT chain FROM messages GROUP BY chain ORDER BY count(*) DESC").fetchone()[0]
    rows = connection.execute(
        "SELECT seq, place FROM messages WHERE chain = ? ORDER BY place LIMIT 2 OFFSET 3", (chain,)
    ).fetchall()
    (a, place_a), (b, place_b) = rows
    connection.execute("UPDATE messages SET place = ? WHERE seq = ?", (place_b, a))
    connection.execute("UPDATE messages SET place = ? WHERE seq = ?", (place_a, b))


def swap_numbers(connection: sqlite3.Connection) -> None:
    """Two messages exchange the numbers that views sort by."""
    connection.execute("UPDATE messages SET seq = -5 WHERE seq = 5")
    connection.execute("UPDATE messages SET seq = 5 WHERE seq = 6")
    connection.execute("UPDATE messages SET seq = 6 WHERE seq = -5")


@pytest.mark.parametrize(
    ("damage", "kind", "named"),
    [
        (run("UPDATE messages SET role = 'user' WHERE seq = 4"), "changed", "messages row {m4} (place"),
        (run("UPDATE outcomes SET cost = 0.5 WHERE seq = 2"), "changed", "outcomes row"),
        (run("DELETE FROM messages WHERE seq = 4"), "missing", "the row of place"),
        (run("DELETE FROM windows WHERE seq = 3"), "missing", "the row of place"),
        (run("DELETE FROM outcomes WHERE seq = 10"), "missing", "its last 1 rows"),
        (swap_texts, "reordered", "belongs at place"),
        (swap_numbers, "reordered", "is numbered"),
        (run("UPDATE bodies SET data = x'0041' WHERE seq = 4"), "changed", "the body "),
        (run("DELETE FROM bodies WHERE seq = 4"), "missing", "the body "),
        (run("UPDATE messages SET chain = 99 WHERE seq = 4"), "unrecorded", "{m4} stands in no chain"),
        (run("UPDATE chains SET length = length - 1 WHERE number = 1"), "unrecorded", "behind the recorded end"),
        (run("DELETE FROM chains WHERE number = 2"), "missing", "conversation number 2"),
        (run("INSERT INTO messages SELECT 999, 'new', conversation, branch, kind, role, body, call_id, source,"
             " \"group\", is_pinned, importance, exchange, created_at, atoms, text, chain, place, seal"
             " FROM messages WHERE seq = 4"), "unrecorded", "which is taken"),
    ],
)  # fmt: skip
def test_damage_is_named(db: Path, damage: Damage, kind: str, named: str) -> None:
    with writing(db) as connection:
        (fourth,) = connection.execute("SELECT id FROM messages WHERE seq = 4").fetchone()
        damage(connection)
    found = verified(db)
    assert any(p.kind == kind and named.format(m4=fourth) in p.what for p in found.problems), told(found)


def test_a_damaged_export_names_the_row_and_its_conversation(db: Path) -> None:
    lines = exported(db)
    place = next(i for i, line in enumerate(lines) if b'"table":"messages"' in line and b"gauge" in line)
    changed = [*lines[:place], lines[place].replace(b"gauge", b"gouge", 1), *lines[place + 1 :]]
    assert "messages row" in told(verify_export(changed))
    for damaged, word in (
        ([*lines[:place], *lines[place + 1 :]], "missing: conversation"),
        ([*lines[:place], lines[place], lines[place], *lines[place + 1 :]], "which is taken"),
        (lines[:-1], "the end of the file"),
        (lines[: len(lines) // 4], "its last"),
        ([*lines, lines[-1]], "behind the end"),
        ([*lines[:-1], lines[-1][:-9]], "breaks off"),
        ([], "no export"),
    ):
        assert word in told(verify_export(damaged)), word


def test_state_lines_are_under_the_sum(db: Path) -> None:
    lines = exported(db)
    place = next(i for i, line in enumerate(lines) if b'"is_summarized":1' in line)
    lines[place] = lines[place].replace(b'"is_summarized":1', b'"is_summarized":0')
    assert "the sum of the file" in told(verify_export(lines))


def test_a_chain_check_by_hand() -> None:
    check = ChainCheck("c", 2, b"")
    assert [p.kind for p in check.finish()] == ["missing"]
    assert not ChainCheck("c", 0, b"").finish()


def test_late_bodies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.audit.checking._RECENT_BODIES", 2)
    recent = RecentBodies()
    for hash in (b"a", b"b", b"c"):
        recent.add(hash)
    assert b"a" not in recent and b"b" in recent and b"c" in recent


def test_a_reader_of_nothing() -> None:
    reader = Reader()
    assert not list(reader.read([])) and [p.kind for p in reader.finish()] == ["damaged"]
