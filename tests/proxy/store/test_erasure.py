"""Erasing: nothing of the text stays in the file, the rest holds, the tombstone is signed, and nobody else may."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from proxy.audit.verify import verify_store
from proxy.core.filters import Filters
from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store.archive import STATE_TABLES, Archive, ChainLine
from proxy.store.erasure import back_up, erase
from proxy.store.open import open_store
from proxy.store.seals import TABLES
from tests.proxy.store.rows import hashed, make_body, make_item, small_batch
from tests.support.audited import writing

SECRET = b"s" * 32
AT = "2026-02-01T00:00:00.000000Z"
WORD = "zanzibarmarker"


async def fill(db: Path) -> None:
    db.with_suffix(".secret").write_bytes(SECRET)  # before there is a file, which then keeps it
    store = open_store(db)
    await store.open()
    for name in ("one", "two"):
        text = f'{{"role":"user","content":"{WORD}{name} shared words"}}'
        body, both = make_body(text), make_body('{"role":"user","content":"sharedbody"}')
        item = make_item(f"{name}own", conversation=name, branch=name, text=f"{WORD}{name}")
        shared = make_item(f"{name}shared", conversation=name, branch=name)
        await store.submit(small_batch(1, conversation=name, items=3))
        await store.submit(Batch(bodies=(body, both), items=(_with(item, body.hash), _with(shared, both.hash))))
    assert len(await store.search(f"{WORD}one")) == 1
    await store.aclose()


def _with(item: object, hash: bytes) -> object:
    from dataclasses import replace

    return replace(item, body=hash)  # type: ignore[type-var]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "ctx.db"
    asyncio.run(fill(path))
    return path


def chain(db: Path, name: str) -> ChainLine:
    with Archive(db) as archive:
        return next(archive.all_chains(Filters((name,))))


def raw(db: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(db.parent.glob(f"{db.name}*")))


def kinds(db: Path, secret: bytes | None = SECRET) -> list[str]:
    with Archive(db) as archive:
        problems = verify_store(archive, secret=secret).problems
    return [str(p) for p in problems if "body" not in p.what]  # these rows name bodies that were never given


def test_nothing_of_it_stays_and_the_rest_holds(db: Path) -> None:
    assert f"{WORD}one".encode() in raw(db) or b"content" in raw(db)
    erase(db, [chain(db, "one")], secret=SECRET, reason="asked by letter", at=AT)
    assert f"{WORD}one".encode() not in raw(db) and f"{WORD}two".encode() in raw(db)
    assert not kinds(db)
    with Archive(db) as archive:
        (stone,) = archive.tombstones()
        assert (stone.conversation, stone.length, stone.reason, stone.erased_at) == ("one", 7, "asked by letter", AT)
        assert [line.id for line in archive.all_chains(Filters())] == ["~", "two"]
        assert archive.body(hashed(b'{"role":"user","content":"sharedbody"}'))  # two still speaks of it
    with closing(sqlite3.connect(db)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            if "conversation" in names and table != "tombstones":
                assert table in {*STATE_TABLES, *(sealed.name for sealed in TABLES)}, f"erasure must know {table}"
                found = connection.execute(f"SELECT count(*) FROM {table} WHERE conversation = 'one'").fetchone()[0]
                assert found == 0, table
        assert connection.execute("PRAGMA freelist_count").fetchone()[0] == 0


async def test_a_store_goes_on_after_it(db: Path) -> None:
    await asyncio.to_thread(erase, db, [chain(db, "one")], secret=SECRET, reason="", at=AT)
    store = open_store(db)
    await store.open()
    assert not await store.search(f"{WORD}one") and await store.search(f"{WORD}two")
    await store.submit(small_batch(7, conversation="one", items=2))  # the same id may come back
    with closing(sqlite3.connect(db)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("DELETE FROM messages")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("UPDATE tombstones SET reason = ''")
    await store.aclose()
    assert not kinds(db)


def test_a_tombstone_that_was_changed_or_made_up_is_found(db: Path) -> None:
    erase(db, [chain(db, "one")], secret=SECRET, reason="", at=AT)
    assert any("no key file" in text for text in kinds(db, None))
    assert any(text.startswith("changed: the tombstone") for text in kinds(db, b"another" * 5))
    with writing(db) as connection:
        connection.execute("DELETE FROM tombstones")
    assert any("number" in text and text.startswith("missing") for text in kinds(db))


async def test_a_file_in_use_is_left_alone(db: Path) -> None:
    store = open_store(db)
    await store.open()
    await store.conversations()
    before = chain(db, "one")
    with pytest.raises(StoreError, match="in use"):
        await asyncio.to_thread(erase, db, [before], secret=SECRET, reason="", at=AT)
    await store.aclose()
    assert chain(db, "one") == before


def test_a_backup_of_a_store_that_is_written_to_is_whole(db: Path, tmp_path: Path) -> None:
    stop, started = threading.Event(), threading.Event()

    async def write() -> None:
        store = open_store(db)
        await store.open()
        number = 10
        while not stop.is_set():
            await store.submit(small_batch(number, conversation="busy", items=4))
            number += 1
            started.set()
        await store.aclose()

    writer = threading.Thread(target=lambda: asyncio.run(write()))
    writer.start()
    try:
        assert started.wait(20)
        back_up(db, tmp_path / "copy.db")
    finally:
        stop.set()
        writer.join()
    assert not kinds(tmp_path / "copy.db")
    with Archive(tmp_path / "copy.db") as archive:
        assert {line.id for line in archive.all_chains(Filters())} >= {"one", "two", "busy"}
    assert not list(tmp_path.glob("*.part"))
    with pytest.raises(StoreError, match="cannot copy"):
        back_up(tmp_path / "none.db", tmp_path / "x.db")
