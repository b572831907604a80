"""Connects to PostgreSQL, waits no longer than allowed, and turns psycopg's errors into ours. Knows no statement."""

from __future__ import annotations

import contextlib
import re
import select
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg import conninfo
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import BytesBinaryDumper, StrDumper

from proxy.errors import StoreError
from proxy.store.postgres_dialect import from_database, to_database, translated
from proxy.store.postgres_schema import STEPS, migrate, version_of

CONNECT_S = 3
MIGRATE_S = 120.0
_STREAM_ROWS = 16

# Classes of SQLSTATE: what is wrong with the database and not with what is written.
_OUTAGE = ("08", "53", "57", "58", "25006", "55P03", "XX", "F0", "42501")
_IN_THE_WAY = ("40001", "40P01")
_AGAIN = (*_IN_THE_WAY, "23505")
_FULL = ("53100", "53200", "53300")


# `?prepare=no` in the URL: a pooler that gives each transaction another connection may know no prepared statements.
_UNPREPARED = re.compile(r"([?&])prepare=no(&|$)")


class OutOfTimeError(psycopg.OperationalError):
    """No answer within the time allowed. The connection is of no more use."""


class _Connection(psycopg.Connection[Any]):
    """Waits for the server until a deadline: one that stands still sends no error."""

    deadline = float("inf")

    def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
        try:
            wanted = next(gen)
            poll, number = select.poll(), self.pgconn.socket
            while True:
                poll.register(number, (wanted & 1 and select.POLLIN) | (wanted & 2 and select.POLLOUT))
                left = self.deadline - time.monotonic()
                found = poll.poll(None if left == float("inf") else max(left, 0) * 1000)
                if not found:
                    self.close()
                    with contextlib.suppress(psycopg.Error):  # whatever it had begun ends here
                        gen.close()
                    raise OutOfTimeError("no answer from the server in time")
                event = found[0][1]
                ready = (1 if event & ~select.POLLOUT else 0) | (2 if event & select.POLLOUT else 0)
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


class _Rows:
    """One statement's rows, as they were given."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def fetchone(self) -> Any:
        row = self._cursor.fetchone()
        return None if row is None else from_database(row)

    def fetchall(self) -> list[Any]:
        return [from_database(row) for row in self._cursor.fetchall()]

    def __iter__(self) -> Iterator[Any]:
        return map(from_database, self._cursor)

    def close(self) -> None:
        self._cursor.close()


class PostgresDatabase:
    """A connection that takes the store's statements. `allow` says how long it may wait for the server from now."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._streams = 0
        self._open: list[Any] = []
        self.is_used = False

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> _Rows:
        cursor = psycopg.RawCursor(self._connection)
        cursor.execute(translated(statement), to_database(values), binary=True)
        return _Rows(cursor)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> _Rows:
        cursor = psycopg.RawCursor(self._connection)
        values = [to_database(row) for row in rows]  # first: what makes the rows may ask this very connection
        if len(values) == 1:  # most are: without a pipeline
            cursor.execute(translated(statement), values[0])
        elif values:
            cursor.executemany(translated(statement), values)
        return _Rows(cursor)

    def stream(self, statement: str, values: Sequence[Any] = (), /) -> _Rows:
        """The rows a few at a time. The transaction that this needs ends with `rest`."""
        if not self.in_transaction:
            self.execute("BEGIN READ ONLY")
        self._streams += 1
        cursor = psycopg.RawServerCursor(self._connection, f"s{self._streams}")
        self._open.append(cursor)
        cursor.itersize = _STREAM_ROWS
        cursor.execute(translated(statement), to_database(values), binary=True)
        return _Rows(cursor)

    def rest(self, *, is_good: bool = True) -> None:
        """Nothing is left open between two reads, or after a write that failed."""
        self._close_streams()
        if self.in_transaction:
            self.execute("COMMIT" if is_good else "ROLLBACK")

    def _close_streams(self) -> None:
        streams, self._open = self._open, []
        for cursor in streams:
            with contextlib.suppress(psycopg.Error):  # of a transaction that failed, or a connection that is lost
                cursor.close()

    def allow(self, seconds: float) -> None:
        self._connection.deadline = time.monotonic() + seconds

    @property
    def in_transaction(self) -> bool:
        return self._connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE

    @property
    def is_closed(self) -> bool:
        return self._connection.closed

    def close(self) -> None:
        self._close_streams()
        self._connection.close()


def connect(url: str, *, patience_s: float = 10.0) -> PostgresDatabase:
    """A connection that is told its name. Raises psycopg's errors."""
    try:
        connection = _Connection.connect(
            _for_libpq(url), autocommit=True, connect_timeout=CONNECT_S, application_name="undercliff"
        )
        if _UNPREPARED.search(url):
            connection.prepare_threshold = None
    except UnicodeError as error:
        raise psycopg.OperationalError(str(error)) from error
    adapters = connection.adapters
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(str, StrDumper)
    adapters.register_dumper(bytes, BytesBinaryDumper)
    database = PostgresDatabase(connection)
    database.allow(patience_s)
    return database


def connect_ready(url: str, *, is_moving: bool = False) -> PostgresDatabase:
    """The same with the schema up to date. Raises StoreError, also for one that is half filled from another store."""
    try:
        database = connect(url, patience_s=MIGRATE_S)
    except psycopg.Error as error:
        raise store_error(error, url, "open") from error
    try:
        check_version(database, url)
        migrate(database)
        if not is_moving and database.execute("SELECT to_regclass('undercliff_moving') IS NOT NULL").fetchone()[0]:
            raise StoreError(
                f"{shown(url)} is half filled from another store", hint="Run undercliff migrate-store to its end."
            )
    except psycopg.Error as error:
        database.close()
        raise store_error(error, url, "open") from error
    except StoreError:
        database.close()
        raise
    return database


def check_version(database: PostgresDatabase, url: str) -> int:
    """The schema's version. Raises StoreError for one that a newer undercliff wrote."""
    found = version_of(database)
    if found > len(STEPS):
        raise StoreError(
            f"{shown(url)} was written by a newer undercliff (schema {found}, this one knows {len(STEPS)})",
            hint="upgrade undercliff, or choose another database",
        )
    return found


def is_outage(error: BaseException | None) -> bool:
    """Whether the database is away, full or out of its mind, so that the same write can be done later."""
    if not isinstance(error, psycopg.Error):
        return isinstance(error, OSError)
    code = error.sqlstate
    if code is None:  # nothing came from the server at all
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return code.startswith((*_OUTAGE, *_IN_THE_WAY))


def is_conflict(error: BaseException | None) -> bool:
    """Another replica was in the way: the same transaction can be tried at once."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _AGAIN


def store_error(error: BaseException, url: str, doing: str) -> StoreError:
    """Our error for a foreign one: one line that names the database, never its password."""
    code = getattr(error, "sqlstate", None) or ""
    name = shown(url)
    reason = " ".join(str(error).split()).replace(_password(url) or "\0", "***") or type(error).__name__
    if code in _FULL:
        return StoreError(f"no space left to {doing} {name}: {reason}", hint="free space there", is_full=True)
    if code.startswith("28") or "password" in reason:
        return StoreError(f"cannot {doing} {name}: {reason}", hint="check the user and password in store.url")
    if is_outage(error):
        return StoreError(f"cannot {doing} {name}: {reason}", hint="check that the database is up and can be reached")
    return StoreError(f"cannot {doing} {name}: {reason}")


def shown(url: str) -> str:
    """The URL without password and options."""
    try:
        parts = urlsplit(_for_libpq(url))
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or "local"
        return f"postgresql://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "postgresql://…"


def _password(url: str) -> str:
    try:
        return str(conninfo.conninfo_to_dict(_for_libpq(url)).get("password") or "")
    except psycopg.Error:
        return unquote(urlsplit(url).password or "")


def _for_libpq(url: str) -> str:
    """What libpq takes: SQLAlchemy's `postgresql+psycopg://` is the same database; `prepare` is our own option."""
    url = _UNPREPARED.sub(lambda found: found[1] if found[2] else "", url)
    return re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", url, flags=re.IGNORECASE)
