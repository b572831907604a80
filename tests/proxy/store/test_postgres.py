"""The PostgreSQL store when its database is restarted, slow, full or away, and when replicas write at once."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.commits import COMMIT_S
from proxy.core.records import Batch, BodyRow, LearnedRow
from proxy.errors import StoreError
from proxy.store import postgres_pool, postgres_schema, postgres_search, postgres_writer
from proxy.store.migrations import MIGRATIONS, migrate
from proxy.store.postgres import PostgresStore, name_of
from proxy.store.postgres_connection import connect, connect_ready, is_outage, shown, store_error
from tests.proxy.store.backends import without_postgres
from tests.proxy.store.rows import make_branch, make_item, make_items, make_outcome, small_batch
from tests.support.postgres import PostgresServer, drop_database, new_database, own_server

pytestmark = without_postgres


@pytest.fixture
def url() -> Iterator[str]:
    made = new_database()
    yield made
    drop_database(made)


@pytest.fixture(scope="module")
def own() -> Iterator[PostgresServer]:
    """A server that the tests of this module stop and freeze, one after the other."""
    with own_server() as server:
        yield server


@pytest.fixture
async def breakable(own: PostgresServer, tmp_path: Path) -> AsyncIterator[PostgresStore]:
    name = f"t{time.monotonic_ns()}"
    own.execute(f"CREATE DATABASE {name}")
    store = PostgresStore(own.url(name), secret_file=tmp_path / "x.secret", spool=tmp_path / "spool")
    await store.open()
    yield store
    await store.aclose()


async def ids(store: PostgresStore, conversation: str = "c") -> list[str]:
    return [stored.row.id async for stored in await store.transcript(conversation)]


async def healed(store: PostgresStore) -> None:
    async with asyncio.timeout(150):
        while store.is_degraded:
            await asyncio.sleep(0.05)


# -- the database goes away ------------------------------------------------------------------------
async def test_writes_while_it_is_stopped_are_acknowledged_from_disk_and_drained_in_order(
    breakable: PostgresStore, own: PostgresServer
) -> None:
    await breakable.submit(Batch(items=make_items("1")))
    own.stop()
    async with asyncio.timeout(20):
        for number in range(2, 30):
            await breakable.submit(Batch(items=make_items(f"{number}")))
    assert breakable.is_degraded
    with pytest.raises(StoreError):
        await breakable.branch("b")
    own.start()
    await healed(breakable)
    assert await ids(breakable) == [f"{number}" for number in range(1, 30)]


async def test_what_waits_on_disk_survives_the_proxy_too(own: PostgresServer, tmp_path: Path) -> None:
    own.execute("CREATE DATABASE survives")
    store = PostgresStore(own.url("survives"), spool=tmp_path / "spool")
    await store.open()
    own.stop()
    await store.submit(small_batch(1))
    await store.aclose()  # as good as killed: the record was flushed before the answer
    own.start()
    again = PostgresStore(own.url("survives"), spool=tmp_path / "spool")
    await again.open()
    assert again.is_degraded
    await healed(again)
    assert len(await ids(again)) == 5
    await again.aclose()


async def test_a_proxy_that_starts_while_a_known_database_is_away_serves(own: PostgresServer, tmp_path: Path) -> None:
    own.execute("CREATE DATABASE known")

    def made(name: str = "known") -> PostgresStore:
        secret = tmp_path / f"{name}.secret"
        return PostgresStore(own.url("known"), secret_file=secret, spool=tmp_path / "spool")

    store = made()
    await store.open()
    await store.aclose()
    own.stop()
    with pytest.raises(StoreError):  # elsewhere it was never reached: that looks like a mistake
        await PostgresStore(own.url("known"), spool=tmp_path / "elsewhere").open()
    store, other = made(), made("other")
    await store.open()
    await other.open()
    assert store.is_degraded
    await store.submit(small_batch(1))
    own.start()
    await healed(store)
    assert len(await ids(store)) == 5
    with pytest.raises(StoreError, match="another key"):  # that is found out later, and nothing is written
        for _ in range(100):
            await asyncio.sleep(0.05)
            await other.submit(small_batch(2))
            if other._writer._away is not None and "another key" in str(other._writer._away):  # type: ignore[attr-defined]
                raise other._writer._away  # type: ignore[attr-defined]
    await other.aclose()
    assert len(await ids(store)) == 5
    await store.aclose()


async def test_a_restart_between_two_writes_costs_nothing(breakable: PostgresStore, own: PostgresServer) -> None:
    await breakable.submit(Batch(items=make_items("1")))
    assert len(await ids(breakable)) == 1
    own.restart()
    await breakable.submit(Batch(items=make_items("2")))
    assert await ids(breakable) == ["1", "2"]


async def test_a_server_that_stands_still_holds_nobody_up(breakable: PostgresStore, own: PostgresServer) -> None:
    """PERF-06 in small: paused, and a write goes to the spool before a reply has waited its time."""
    await breakable.submit(Batch(items=make_items("1")))
    with own.frozen():
        async with asyncio.timeout(60):
            await asyncio.gather(*(breakable.submit(Batch(items=make_items(f"{n}"))) for n in range(2, 200)))
        assert breakable.is_degraded
    await healed(breakable)
    assert sorted(map(int, await ids(breakable))) == list(range(1, 200))


async def test_beyond_the_spools_bound_a_gap_is_recorded(own: PostgresServer, tmp_path: Path) -> None:
    own.execute("CREATE DATABASE gaps")
    store = PostgresStore(own.url("gaps"), spool=tmp_path / "spool", max_spool_bytes=20_000)
    await store.open()
    own.stop()
    results = await asyncio.gather(*(store.submit(small_batch(n)) for n in range(40)), return_exceptions=True)
    lost = sum(isinstance(result, StoreError) for result in results)
    more = await asyncio.gather(store.submit(small_batch(50)), return_exceptions=True)
    own.start()
    await healed(store)
    ((batches, reason),) = own.execute("SELECT batches, reason FROM gaps", "gaps")
    assert batches == lost + isinstance(more[0], StoreError) > 0
    assert "spool is full" in reason
    await store.aclose()


async def test_a_full_disk_there_is_an_outage_and_not_a_bad_batch(
    breakable: PostgresStore, own: PostgresServer
) -> None:
    """STOR-06: the insert raises disk-full; then space returns."""
    name = breakable._url.rpartition("/")[2]
    await breakable.submit(Batch(items=make_items("1")))
    own.execute(
        "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS"
        " $f$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $f$", name
    )  # fmt: skip
    own.execute("CREATE TRIGGER full_disk BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION no_space()", name)
    await breakable.submit(Batch(items=make_items("2")))
    assert breakable.is_degraded and await ids(breakable) == ["1"]
    own.execute("DROP TRIGGER full_disk ON messages", name)
    await healed(breakable)
    assert await ids(breakable) == ["1", "2"]


async def test_a_server_that_became_read_only_is_left_for_the_one_behind_its_name(
    breakable: PostgresStore, own: PostgresServer
) -> None:
    """A failover: the connection is well, and it leads to what is now a standby."""
    name = breakable._url.rpartition("/")[2]
    await breakable.submit(Batch(items=make_items("1")))
    own.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    own.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'undercliff'")
    await breakable.submit(Batch(items=make_items("2")))
    assert breakable.is_degraded and await ids(breakable) == ["1"]
    own.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    await healed(breakable)
    assert await ids(breakable) == ["1", "2"]


async def test_a_slow_database_gets_the_rows_in_its_own_time(
    own: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "WRITE_S", 0.4)
    own.execute("CREATE DATABASE slow")
    store = PostgresStore(own.url("slow"), spool=tmp_path / "spool")
    await store.open()
    waits = "BEGIN PERFORM pg_sleep(0.6); RETURN NULL; END"
    own.execute(f"CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $f$ {waits} $f$", "slow")
    own.execute("CREATE TRIGGER slow BEFORE INSERT ON messages FOR EACH STATEMENT EXECUTE FUNCTION wait()", "slow")
    async with asyncio.timeout(20):
        await asyncio.gather(*(store.submit(Batch(items=make_items(f"{n}"))) for n in range(2)))
    assert store.is_degraded
    await healed(store)
    assert sorted(await ids(store)) == [f"{n}" for n in range(2)]
    await store.aclose()


async def test_without_a_spool_a_write_is_refused_and_a_gap_recorded(own: PostgresServer) -> None:
    own.execute("CREATE DATABASE bare")
    store = PostgresStore(own.url("bare"))
    await store.open()
    own.stop()
    with pytest.raises(StoreError, match="cannot write"):
        await store.submit(small_batch(1))
    own.start()
    await healed(store)
    await store.submit(small_batch(2))
    assert own.execute("SELECT batches FROM gaps", "bare") == [(1,)]
    await store.aclose()


async def test_a_bad_batch_fails_alone(url: str, tmp_path: Path) -> None:
    store = PostgresStore(url, spool=tmp_path / "spool")
    await store.open()
    bad = small_batch(1, conversation="bad")
    bad = replace(bad, exchanges=(replace(bad.exchanges[0], request_bytes=1 << 80),))
    jobs = [store.submit(small_batch(2)), store.submit(bad), store.submit(small_batch(3))]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert [isinstance(result, StoreError) for result in results] == [False, True, False]
    assert len(await ids(store)) == 10 and await ids(store, "bad") == []
    await store.aclose()


async def test_names_that_fit_no_index_cost_nothing_else(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    scope, model = "".join(map(chr, range(0x4E00, 0x7E00))), "".join(map(chr, range(0x7000, 0x9000)))
    branch = make_branch("b", scope=scope, model=model)
    await store.submit(replace(small_batch(1), branches=(branch,), learned=(LearnedRow("u", model, "limit", 1.0),)))
    assert [row.id for row in await store.find_branches("t", [], scope)] == ["b"]
    assert await store.find_branches("t", [], scope + "x") == []
    assert await store.learned() == []
    await store.aclose()


# -- replicas ------------------------------------------------------------------------------------
async def test_replicas_that_write_the_same_at_once_leave_one_whole_chain(url: str) -> None:
    """What two replicas may both write (bodies, the same turn, what was learned) is there once, and nobody fails."""
    stores = [PostgresStore(url) for _ in range(4)]
    for store in stores:
        await store.open()
    shared = [BodyRow(bytes([n]) * 16, b"shared %d" % n) for n in range(20)]

    async def write(store: PostgresStore, turn: int) -> None:
        names = [f"c{(turn + step) % 5}" for step in range(5)]
        await asyncio.gather(
            *(
                store.submit(
                    replace(
                        small_batch(turn, conversation=name, items=2),
                        bodies=tuple(shared[:: 1 if turn % 2 else -1]),
                        outcomes=(make_outcome(f"{name}e{turn}", input=1),),
                        learned=(LearnedRow("u", f"m{turn % 3}", "limit", float(turn)),),
                    )
                )
                for name in names
            )
        )

    for turn in range(12):
        await asyncio.gather(*(write(store, turn) for store in stores))
    lines = {line.id: line for line in await stores[0].conversations()}
    assert {(line.exchanges, line.items, line.input) for line in lines.values()} == {(12, 24, 12)}
    database = connect(url)
    places = database.execute(
        "SELECT c.length, (SELECT count(DISTINCT place) FROM (SELECT place FROM messages m WHERE m.chain = c.number"
        " UNION ALL SELECT place FROM exchanges e WHERE e.chain = c.number"
        " UNION ALL SELECT place FROM outcomes o WHERE o.chain = c.number"
        " UNION ALL SELECT place FROM paths p WHERE p.chain = c.number"
        " UNION ALL SELECT place FROM windows w WHERE w.chain = c.number) x), c.number FROM chains c ORDER BY c.number"
    ).fetchall()
    assert [number for _, _, number in places] == [1, 2, 3, 4, 5, 6]  # the last is of rows of no conversation
    assert all(length == there for length, there, _ in places)
    database.close()
    for store in stores:
        await store.aclose()


async def test_what_one_replica_learned_the_other_hears_with_its_next_turn(url: str) -> None:
    one, other = PostgresStore(url), PostgresStore(url)
    await one.open()
    await other.open()
    heard: list[list[LearnedRow]] = []
    other.listen(heard.append)
    await one.submit(Batch(learned=(LearnedRow("u", "m", "limit", 8192.0),)))
    await other.find_branches("t", [("text", b"x" * 16)], "")
    assert heard == [[LearnedRow("u", "m", "limit", 8192.0)]]
    await one.aclose()
    await other.aclose()


async def test_another_key_than_the_stores_is_refused(url: str, tmp_path: Path) -> None:
    first = PostgresStore(url, secret_file=tmp_path / "a.secret")
    await first.open()
    await first.aclose()
    with pytest.raises(StoreError, match="another key") as caught:
        await PostgresStore(url, secret_file=tmp_path / "b.secret").open()
    assert "store.secret_file" in caught.value.hint
    again = PostgresStore(url, secret_file=tmp_path / "a.secret")
    await again.open()
    await again.aclose()


def test_several_that_start_at_once_make_one_schema(url: str) -> None:
    """STOR-07, the second half: the others wait, and then find it done."""
    failures: list[StoreError] = []

    def start() -> None:
        try:
            connect_ready(url).close()
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    database = connect(url)
    assert postgres_schema.version_of(database) == len(postgres_schema.STEPS)
    database.close()


def test_a_migration_that_dies_leaves_nothing_and_is_done_anew(url: str) -> None:
    """STOR-07, the first half."""

    def dying(database: Any) -> None:
        postgres_schema.STEPS[0](database)
        raise KeyboardInterrupt

    database = connect(url, patience_s=60)
    with pytest.raises(KeyboardInterrupt):
        postgres_schema.migrate(database, (dying,))
    assert postgres_schema.version_of(database) == 0
    postgres_schema.migrate(database)
    assert postgres_schema.version_of(database) == 1
    database.close()


async def test_no_more_connections_than_it_says(own: PostgresServer, tmp_path: Path) -> None:
    """STOR-09: 200 reads and writes at once on a database that takes five connections, restarted in the middle."""
    with own_server("max_connections=8", "superuser_reserved_connections=2") as server:
        store = PostgresStore(server.url(), readers=4, spool=tmp_path / "spool")
        await store.open()
        work = [store.submit(small_batch(n, conversation=f"c{n % 7}")) for n in range(100)]
        reads = [asyncio.ensure_future(store.branch(f"c{n % 7}")) for n in range(100)]
        await asyncio.gather(*work, *reads)
        (found,) = server.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'undercliff'")
        assert found[0] <= 5
        more = [store.submit(small_batch(n, conversation=f"c{n % 7}")) for n in range(100, 200)]
        await asyncio.to_thread(server.restart)
        await asyncio.gather(*more)
        await healed(store)
        assert sum(line.exchanges for line in await store.conversations()) == 200
        await store.aclose()


# -- the schema ------------------------------------------------------------------------------------
def test_the_columns_are_those_of_sqlite(url: str, tmp_path: Path) -> None:
    database = connect_ready(url)
    theirs: dict[str, set[str]] = {}
    for table, column in database.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    ).fetchall():
        theirs.setdefault(table, set()).add(column)
    database.close()
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        migrate(connection)
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        ours = {name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")} for name in tables}
    left = {name for name in ours if name.startswith(("items_fts", "sqlite_", "search_index"))}
    assert {name: columns for name, columns in ours.items() if name not in left} == {
        name: theirs[name] - ({"rowid"} if name in ("branches", "conversations") else set())
        for name in ours
        if name not in left
    }, f"a step of {len(MIGRATIONS)} is missing in postgres_schema"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET text = ''::bytea",
        "DELETE FROM exchanges",
        "DELETE FROM bodies",
        "TRUNCATE messages",
        "UPDATE chains SET length = length - 1",
        "DELETE FROM chains",
    ],
)
async def test_the_database_itself_refuses_to_change_what_is_kept(url: str, statement: str) -> None:
    store = PostgresStore(url)
    await store.open()
    await store.submit(small_batch(1))
    database = connect(url)
    with pytest.raises(Exception, match=r"append-only|only grow"):
        database.execute(statement)
    database.close()
    assert len(await ids(store)) == 5
    await store.aclose()


async def test_the_big_tables_are_partitioned_by_hash(url: str) -> None:
    database = connect_ready(url)
    found = dict(database.execute(
        "SELECT c.relname, pg_get_partkeydef(c.oid) FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid"
    ).fetchall())  # fmt: skip
    database.close()
    assert found["messages"] == found["exchanges"] == "HASH (conversation)"
    assert {"bodies", "working", "keys", "windows", "paths"} <= found.keys()


async def test_plain_tables_where_there_are_no_hash_partitions(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = postgres_schema._create
    monkeypatch.setattr(postgres_schema, "_create", lambda name, is_partitioned: make(name, False))
    store = PostgresStore(url)
    await store.open()
    await store.submit(small_batch(1))
    assert len(await ids(store)) == 5
    database = connect(url)
    assert database.execute("SELECT count(*) FROM pg_partitioned_table").fetchone()[0] == 0
    database.close()
    await store.aclose()


def test_an_option_for_poolers_is_ours_and_not_the_database_s(url: str) -> None:
    for end, is_prepared in (("", True), ("?prepare=no", False), ("?prepare=no&connect_timeout=5", False)):
        database = connect(url + end)
        for _ in range(9):
            database.execute("SELECT 1")
        assert bool(database.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0]) is is_prepared
        database.close()


# -- searching, reading, naming --------------------------------------------------------------------
async def test_a_long_text_is_found_by_words_far_apart(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    long = "first " + "filler word " * 60_000 + "x" * 300_000 + " last"
    await store.submit(Batch(items=(make_item("1", text=long), make_item("2", text="last of all"))))
    assert [stored.row.id for stored, _ in await store.search("first last")] == ["1"]
    assert {stored.row.id for stored, _ in await store.search("last")} == {"2", "1"}
    await store.aclose()


def test_words_are_cut_as_the_other_index_cuts_them() -> None:
    assert postgres_search.words_of("Re-index NS::name, Ünïcode_42 can't\0x") == (
        ["re", "index", "ns", "name", "unicode", "42", "can", "t", "x"]
    )


async def test_a_read_goes_on_after_a_restart_and_fails_at_once_while_it_is_away(own: PostgresServer) -> None:
    pool = postgres_pool.PostgresPool(own.url(), 2)
    assert await pool.run(lambda db: db.execute("SELECT 1").fetchone()) == (1,)
    own.restart()
    assert await pool.run(lambda db: db.execute("SELECT 1").fetchone()) == (1,)
    own.stop()
    for _ in range(50):
        with pytest.raises(StoreError, match=r"cannot read|is away"):
            await pool.run(lambda db: db.execute("SELECT 1").fetchone())
    own.start()
    pool.close()
    with pytest.raises(StoreError, match="closed"):
        await pool.run(lambda db: None)


async def test_while_nothing_answers_one_read_at_a_time_waits_for_it(own: PostgresServer) -> None:
    looks = 0

    def look(db: Any) -> Any:
        nonlocal looks
        looks += 1
        return db.execute("SELECT 1").fetchone()

    pool = postgres_pool.PostgresPool(own.url(), 2)
    assert await pool.run(look) == (1,)
    with own.frozen():
        found = await asyncio.gather(*(pool.run(look) for _ in range(60)), return_exceptions=True)
        assert all(isinstance(one, StoreError) for one in found)
        assert looks <= 3  # the others did not wait for an answer in their turn
    while isinstance((await asyncio.gather(pool.run(look), return_exceptions=True))[0], StoreError):
        await asyncio.sleep(0.05)
    assert await asyncio.gather(*(pool.run(look) for _ in range(9))) == [(1,)] * 9
    pool.close()


def test_no_message_names_a_password() -> None:
    url = "postgresql+psycopg://me:hunter2@127.0.0.1:1/db?sslmode=disable"
    with pytest.raises(StoreError) as caught:
        connect_ready(url)
    assert "hunter2" not in str(caught.value) + caught.value.hint
    assert "postgresql://127.0.0.1:1/db" in str(caught.value)
    assert shown("postgresql://[::1]:5/x") == "postgresql://[::1]:5/x"
    assert name_of(url) == name_of(url.replace("hunter2", "other"))
    assert is_outage(caught.value.__cause__) and not is_outage(ValueError())
    assert "hunter2" not in str(store_error(ValueError("password hunter2 is wrong"), url, "read"))


def test_a_newer_schema_is_refused(url: str) -> None:
    database = connect_ready(url)
    database.execute("UPDATE undercliff_schema SET version = 99")
    database.close()
    with pytest.raises(StoreError, match="newer undercliff"):
        connect_ready(url)


def test_writes_wait_less_than_a_reply_does() -> None:
    assert postgres_writer.WRITE_S < COMMIT_S
