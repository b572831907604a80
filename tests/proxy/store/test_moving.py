"""A file's store in PostgreSQL: moved, compared, audited, erased from, gone on with."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from proxy.audit.exporting import stream
from proxy.audit.reading import lines_of
from proxy.audit.verify import verify_export, verify_store
from proxy.cli.commands import app
from proxy.core.filters import Filters
from proxy.core.records import Batch, BodyRow, KeyRow, LearnedRow, LinkRow, MarkRow
from proxy.errors import ConfigError, StoreError
from proxy.store import listing, moving, postgres_erasure
from proxy.store.archive import Archive
from proxy.store.base import Store
from proxy.store.open import open_store
from proxy.store.postgres import PostgresStore
from proxy.store.postgres_connection import connect
from proxy.store.postgres_schema import unguards
from proxy.store.postgres_source import PostgresSource
from proxy.store.secret import read_secret
from proxy.store.source import FileSource, source_of
from tests.proxy.store.backends import without_postgres
from tests.proxy.store.rows import make_body, make_branch, make_fold, make_item, make_outcome, small_batch
from tests.support.postgres import drop_database, new_database

pytestmark = without_postgres
HOSTILE = "nul \x00, lone \ud83d, é, 漢字, '; DROP TABLE messages --, \U0010fffe0"


def whole(batch: Batch) -> tuple[BodyRow, ...]:
    """Everything that the batch's rows speak of."""
    told = [f"body of {item.id}" for item in batch.items] + [item.id for item in batch.items] + ["prefix", "suffix"]
    return (*batch.bodies, *map(make_body, told))


async def fill(store: Store, turns: int = 40) -> None:
    await store.open()
    for number in range(turns):
        name = f"c{number % 3}"
        batch = small_batch(number, conversation=name)
        await store.submit(
            replace(
                batch,
                bodies=whole(batch),
                outcomes=(make_outcome(f"{name}e{number}", input=number, cost=0.5, error="a\0b"),),
                keys=(KeyRow("t", "text", bytes([number]) * 16, name),),
                links=(LinkRow(name, f"{number}", "x", "cites"),),
                marks=(MarkRow(name, f"{number}", "pin", "\0"),),
                learned=(LearnedRow("u", f"m{number}", "limit", number + 0.25),),
            )
        )
    bodies = tuple(make_body(f"body of {id}") for id in ("odd", "Cx"))
    hostile = replace(make_item("odd", conversation="c0", branch="c0", text=HOSTILE), source="a\0b", call_id="\0")
    fold = make_fold("Cx", ["c0i0x1"], conversation="c0", branch="c0")
    await store.submit(Batch(bodies=bodies, items=(hostile,), folds=(fold,)))
    await store.aclose()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    asyncio.run(fill(open_store(tmp_path / "a.db")))
    return tmp_path / "a.db"


@pytest.fixture
def url() -> Iterator[str]:
    made = new_database()
    yield made
    drop_database(made)


def moved(file: Path, url: str) -> None:
    moving.move(file, url, secret=read_secret(file))
    assert all(table.is_same for table in moving.compare(file, url))
    moving.finish(url)


async def told(store: Store) -> list[Any]:
    """All that a store tells, in its own order."""
    await store.open()
    found: list[Any] = [await store.conversations(), await store.learned(), await store.search("words output")]
    for name in ("c0", "c1", "c2"):
        found.append([stored async for stored in await store.transcript(name)])
        found += [await store.view(name), await store.branches(name), await store.exchanges(name)]
        found += [await store.folds(name), await store.links(name), await store.marks(name)]
        found += [await store.window(window) for window in await store.windows(name)]
        found.append(await store.find_branches("t", [("text", bytes([1]) * 16)], ""))
    await store.aclose()
    return found


def test_a_moved_store_tells_what_the_file_tells(file: Path, url: str) -> None:
    moved(file, url)
    ours = asyncio.run(told(open_store(file)))
    theirs = asyncio.run(told(open_store(url, secret_file=file.with_suffix(".secret"))))
    assert {stored.row.id for stored, _ in ours[2]} == {stored.row.id for stored, _ in theirs[2]}
    assert [ours[:2], ours[3:]] == [theirs[:2], theirs[3:]]


def test_its_chains_hold_and_it_goes_on(file: Path, url: str) -> None:
    moved(file, url)
    key = read_secret(file)
    with Archive(file) as one, Archive(url) as other:
        ours, theirs = verify_store(one, secret=key), verify_store(other, secret=key)
    assert ours.holds and theirs.holds and ours.heads == theirs.heads
    assert (ours.rows, ours.bodies, ours.chains) == (theirs.rows, theirs.bodies, theirs.chains)

    async def go_on() -> None:
        store = open_store(url, secret_file=file.with_suffix(".secret"))
        await store.open()
        for batch in (small_batch(100, conversation="c0"), small_batch(0, conversation="new")):
            await store.submit(replace(batch, bodies=whole(batch)))
        lines = {line.id: line for line in await store.conversations()}
        assert [line.id for line in await store.conversations()][:2] == ["new", "c0"]
        assert lines["c0"].exchanges == 15 and lines["c0"].cost == 7.0
        await store.aclose()

    asyncio.run(go_on())
    with Archive(url) as other:
        again = verify_store(other, secret=key)
    assert again.holds, again.problems
    assert again.chains == theirs.chains + 1


@pytest.mark.parametrize("after", [1, 5, 12, 17])
def test_broken_off_it_goes_on(file: Path, url: str, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "PAGE_ROWS", 50)
    pages = 0

    def stop(table: str, rows: int) -> None:
        nonlocal pages
        pages += 1
        if pages == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        moving.move(file, url, secret=read_secret(file), on_rows=stop)
    with pytest.raises(StoreError, match="half filled"):
        asyncio.run(PostgresStore(url).open())
    asyncio.run(more(file))  # what came meanwhile comes too
    seen: list[str] = []
    moving.move(file, url, secret=read_secret(file), on_rows=lambda table, rows: seen.append(table))
    assert pages > 5 or "bodies" in seen
    assert [table for table in moving.compare(file, url) if not table.is_same] == []
    moving.finish(url)
    with Archive(url) as archive:
        assert verify_store(archive, secret=read_secret(file)).holds


async def more(file: Path) -> None:
    store = open_store(file)
    await store.open()
    batch = small_batch(200, conversation="c1")
    await store.submit(replace(batch, bodies=whole(batch)))
    await store.submit(Batch(branches=(make_branch("c1", version=999, conversation="c1"),)))
    await store.aclose()


def test_what_is_not_the_same_is_named(file: Path, url: str) -> None:
    moving.move(file, url, secret=read_secret(file))
    database = connect(url)
    database.execute("UPDATE working SET importance = 7 WHERE seq = 3")
    database.execute("DELETE FROM links WHERE a = '4'")
    database.close()
    assert [table.table for table in moving.compare(file, url) if not table.is_same] == ["links", "working"]


def test_a_target_with_rows_and_another_file_are_refused(file: Path, url: str, tmp_path: Path) -> None:
    asyncio.run(fill(open_store(tmp_path / "b.db"), 2))
    with pytest.raises(KeyboardInterrupt):
        moving.move(file, url, secret=b"", on_rows=lambda table, rows: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(StoreError, match=r"half filled from .*a\.db"):
        moving.move(tmp_path / "b.db", url, secret=b"")
    moving.move(file, url, secret=b"")
    moving.finish(url)
    with pytest.raises(StoreError, match="holds conversations already"):
        moving.move(file, url, secret=b"")


def test_memory_stays_bounded(tmp_path: Path, url: str) -> None:
    """40 MB of bodies, a few at a time."""

    async def large() -> None:
        store = open_store(tmp_path / "large.db")
        await store.open()
        for number in range(80):
            data = number.to_bytes(2, "big") * 250_000
            batch = small_batch(number)
            body = replace(batch.bodies[0], hash=number.to_bytes(16, "big"), data=bytes(tracing(data, number)))
            await store.submit(replace(batch, bodies=(body,)))
        await store.aclose()

    asyncio.run(large())
    tracemalloc.start()
    moving.move(tmp_path / "large.db", url, secret=b"")
    assert all(table.is_same for table in moving.compare(tmp_path / "large.db", url))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 << 20, peak


def tracing(data: bytes, seed: int) -> bytes:
    """Bytes that do not compress."""
    import random

    return random.Random(seed).randbytes(len(data))


def test_the_command_moves_verifies_and_says_so(file: Path, url: str, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[store]\nsecret_file = "{tmp_path / "shared.secret"}"\n')
    done = CliRunner().invoke(app, ["migrate-store", str(file), url, "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert "rows are the same on both sides" in done.output
    assert (tmp_path / "shared.secret").read_bytes() == read_secret(file)
    checked = CliRunner().invoke(app, ["verify", url, "--config", str(config)])
    assert checked.exit_code == 0 and "ok: 4 chains" in checked.output, checked.output
    listed = CliRunner().invoke(app, ["conversations", "--db", url, "--model", "gpt*"])
    assert listed.exit_code == 0 and "c0" in listed.output, listed.output
    again = CliRunner().invoke(app, ["migrate-store", str(file), str(tmp_path / "x.db")])
    assert again.exit_code != 0


# -- an audit over PostgreSQL ----------------------------------------------------------------------
def test_an_export_from_postgres_is_the_files_own(file: Path, url: str, tmp_path: Path) -> None:
    moved(file, url)
    exports = []
    for place in (file, url):
        with Archive(place) as archive:
            exports.append(b"".join(stream(archive, "jsonl", Filters(), version="1")))
    (tmp_path / "x.jsonl").write_bytes(exports[1])
    with (tmp_path / "x.jsonl").open("rb") as opened:
        found = verify_export(lines_of(opened))
    assert found.holds, found.problems
    ours, theirs = ([line for line in lines.splitlines()[1:-1] if b'"sha256"' not in line] for lines in exports)
    assert ours == theirs  # the sums are over the time of the export too
    for format in ("csv", "chat"):
        with Archive(file) as one, Archive(url) as other:
            ours, theirs = (b"".join(stream(each, format, Filters(), version="1")) for each in (one, other))  # type: ignore[arg-type]
        assert ours == theirs


@pytest.mark.parametrize(
    "filters",
    [
        Filters(),
        Filters(model="gpt*"),
        Filters(model="gpt-?"),
        Filters(model="[g]pt-x"),
        Filters(model="g_t%"),
        Filters(conversations=("c1",), tenant="t"),
        Filters(outcome="ok", since="2026-01-01T00:00:00Z", until="2027"),
        Filters(tenant="nobody"),
    ],
)
def test_lists_and_sums_are_the_files_own(file: Path, url: str, filters: Filters) -> None:
    moved(file, url)

    def all_of(archive: Archive) -> list[Any]:
        return [
            archive.read(lambda db: listing.listed(db, filters, 50)),
            archive.read(lambda db: listing.totals(db, filters)),
            archive.read(listing.newest),
            archive.read(lambda db: listing.timeline(db, "c0")),
            archive.read(lambda db: listing.unpriced(db, ["c0", "c1", "x"])),
            archive.read(lambda db: listing.short_messages(db, "c0", 220)),
            archive.read(lambda db: listing.place_of(db, "c0", "odd")),
            archive.size(filters),
            [chain.id for chain in archive.all_chains(filters)],
        ]

    with Archive(file) as one, Archive(url) as other:
        assert all_of(one) == all_of(other)


def test_what_was_changed_in_the_database_is_found(file: Path, url: str) -> None:
    moved(file, url)
    database = connect(url)
    for statement in unguards():
        database.execute(statement)
    database.execute("UPDATE messages SET role = 'system' WHERE id = 'odd'")
    database.execute("DELETE FROM outcomes WHERE exchange = 'c1e1'")
    database.close()
    with Archive(url) as archive:
        kinds = {problem.kind for problem in verify_store(archive, secret=read_secret(file)).problems}
    assert {"changed", "missing"} <= kinds


def test_an_erased_conversation_is_gone_and_a_tombstone_stands(file: Path, url: str) -> None:
    moved(file, url)
    key = read_secret(file)
    with Archive(url) as archive:
        chains = list(archive.all_chains(Filters(conversations=("c1",))))
    postgres_erasure.erase(url, chains, secret=key, reason="on order", at="2026-01-01T00:00:00Z")
    with Archive(url) as archive:
        found = verify_store(archive, secret=key)
        assert [stone.conversation for stone in archive.tombstones()] == ["c1"]
    assert found.holds, found.problems
    database = connect(url)
    for table in ("messages", "working", "branches", "links", "marks", "items_fts", "conversations"):
        column = "id" if table == "conversations" else "conversation"
        assert database.execute(f"SELECT count(*) FROM {table} WHERE {column} = 'c1'").fetchone() == (0,), table
    with pytest.raises(Exception, match="append-only"):
        database.execute("DELETE FROM messages")
    database.close()


def test_places() -> None:
    assert isinstance(source_of(Path("a.db")), FileSource)
    assert isinstance(source_of("sqlite:///a.db"), FileSource)
    source = source_of("postgresql://u:p@h/db")
    assert isinstance(source, PostgresSource) and source.name == "postgresql://h/db"
    with pytest.raises(StoreError, match="no store at"):
        source_of("nowhere.db").connect()
    with pytest.raises(ConfigError):
        open_store("mysql://x")
