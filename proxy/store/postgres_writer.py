"""Writes to PostgreSQL beside other replicas. What the database cannot take now goes to the spool, in order.

Chains are locked in one order before anything is written, so that replicas wait for each other and seldom collide.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import psycopg
import structlog

from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store import postgres_search, signatures, writer
from proxy.store.database import Database
from proxy.store.postgres_connection import (
    OutOfTimeError,
    PostgresDatabase,
    connect,
    connect_ready,
    is_conflict,
    is_outage,
    shown,
    store_error,
)
from proxy.store.rows import write_bodies
from proxy.store.seals import STRAY
from proxy.store.spool import Spool

WRITE_S = 3.5
"""A write that takes longer goes to the spool: less than a reply waits for its rows."""
DRAIN_S = 60.0
RETRY_S = 0.5
RETRY_SHARE = 3.0
"""After a failure to connect, the next attempt waits so long, and so many times as long as the failure took."""
_TRIES = 6
_DRAIN_BYTES = 1 << 20
_LONGEST_KEY = 2000  # of an index; a model of a longer name is learned of by nobody
_FAILURES = (psycopg.Error, StoreError, OSError, ValueError, TypeError, OverflowError, MemoryError)
_LOCK_SQL = "SELECT id FROM chains WHERE id = ANY(?) ORDER BY id FOR UPDATE"
_BEGIN_SQL = "INSERT INTO chains (id, length, head) VALUES (?, 0, x'') ON CONFLICT (id) DO NOTHING"
_OF_EXCHANGES_SQL = "SELECT DISTINCT conversation, tenant FROM exchanges WHERE id = ANY(?)"
_MARK_SQL = "UPDATE undercliff_schema SET mark = ? WHERE mark = x''"

log = structlog.get_logger(__name__)


class Writer(writer.Writer):
    """Owns the writing connection, and the spool."""

    def __init__(
        self,
        url: str,
        max_queue_bytes: int,
        prepare: Callable[[Batch], Batch] | None = None,
        secret_of: Callable[[], bytes] = bytes,
        spool: Spool | None = None,
    ) -> None:
        super().__init__(shown(url), max_queue_bytes, prepare, secret_of)
        self._url = url
        self._spool = spool
        self._connection: PostgresDatabase | None = None
        self._next_try = 0.0
        self._away: StoreError | None = None
        self._patience_s = WRITE_S
        self._is_unchecked = False  # it was away when we started

    # -- the connection --------------------------------------------------------------------------
    def _open(self) -> None:
        """One that was reached before may be away now: what is written goes to the spool, and requests are served."""
        spool = self._spool
        try:
            self._connection = self._checked()
        except StoreError as error:
            if spool is None or not spool.is_known or not is_outage(error.__cause__):
                raise
            log.warning("store_away", path=self._name, error=str(error), hint=error.hint)
            self._away, self._next_try = error, time.monotonic() + RETRY_S
        self._is_unchecked = self._connection is None
        try:
            if spool is not None:
                spool.open()
                spool.know()
                self.is_degraded = self._is_unchecked or spool.batches > 0
        except OSError as error:
            raise store_error(error, self._url, "open the spool of") from error

    def _checked(self) -> PostgresDatabase:
        """A connection to a database that is ours, of this version, and known by the same key. Raises StoreError."""
        database = connect_ready(self._url)
        is_ours = False
        try:
            self._check_key(database)
            is_ours = True
        except psycopg.Error as error:
            raise store_error(error, self._url, "open") from error
        finally:
            if not is_ours:
                database.close()
        return database

    def _check_key(self, database: Database) -> None:
        """All replicas tell callers apart by one key: another one would show each team an empty store."""
        mark = signatures.signature(self._secret, "store", "key")
        if not mark:
            return
        database.execute(_MARK_SQL, (mark,))
        if database.execute("SELECT mark FROM undercliff_schema").fetchone()[0] != mark:
            raise StoreError(
                f"{self._name} was begun with another key than this one's",
                hint="give every replica the same key file: store.secret_file",
            )

    def _connected(self) -> PostgresDatabase:
        """A connection that seems well. Raises StoreError at once while the database was just found away."""
        if self._connection is not None and not self._connection.is_closed:
            return self._connection
        if self._away is not None and time.monotonic() < self._next_try:
            raise self._away
        started = time.monotonic()
        try:
            self._connection = self._checked() if self._is_unchecked else connect(self._url)
        except (psycopg.Error, StoreError) as error:
            self._away = error if isinstance(error, StoreError) else _named(error, self._url)
            self._back_off(started)
            raise self._away from error
        self._away, self._is_unchecked = None, False
        return self._connection

    def _back_off(self, started: float) -> None:
        """While we wait for a server that stands still, nobody's rows reach the spool: so that is seldom."""
        now = time.monotonic()
        self._next_try = max(self._next_try, now + max(RETRY_S, RETRY_SHARE * (now - started)))

    def _transact(self, write: Callable[[Database], None]) -> StoreError | None:
        return self._within(WRITE_S, write)

    def _within(self, seconds: float, write: Callable[[Database], None]) -> StoreError | None:
        """One transaction: again where a replica was in the way, or where the connection had died of age."""
        end = time.monotonic() + seconds
        for number in range(_TRIES):
            had_connection = self._connection is not None
            try:
                database = self._connected()
                database.allow(end - time.monotonic())
                database.execute("BEGIN")
                write(database)
                database.execute("COMMIT")
                return None
            except _FAILURES as error:
                self._roll_back(error)
                is_stale = had_connection and self._connection is None and not isinstance(error, OutOfTimeError)
                can_again = is_conflict(error) or (is_stale and number == 0)
                if can_again and number + 1 < _TRIES and time.monotonic() < end:
                    continue
                return error if isinstance(error, StoreError) else _named(error, self._url)
        return None

    def _roll_back(self, error: BaseException) -> None:
        """After an outage with a new connection: behind the name there may be another server by then."""
        connection = self._connection
        if connection is None:
            return
        try:
            if not connection.is_closed and (is_conflict(error) or not is_outage(error)):
                connection.rest(is_good=False)
                return
        except psycopg.Error as second:
            log.debug("store_rollback_failed", path=self._name, error=str(second))
        self._connection = None
        connection.close()

    # -- writing ---------------------------------------------------------------------------------
    def _is_shared(self, error: StoreError) -> bool:
        return error is self._away or is_outage(error.__cause__)

    def _rows(self, batches: Sequence[Batch], gap: writer.Gap | None) -> Callable[[Database], None]:
        return partial(_write_in_order, batches, lambda some: super(Writer, self)._rows(some, gap))

    def _write(self, jobs: Sequence[writer.Job]) -> None:
        spool = self._spool
        if spool is None:
            super()._write(jobs)
            return
        if not spool.batches:
            error = self._commit(self._prepared(jobs))
            if error is None:
                self._settle(jobs, None)
                return
            if not self._is_shared(error):
                for job in jobs:
                    self._write_one(job)
                return
            log.warning("store_away", path=self._name, error=str(error), hint=error.hint)
        self._keep(jobs)

    def _write_one(self, job: writer.Job) -> None:
        error = self._commit(self._prepared([job]))
        if error is not None and self._is_shared(error):
            self._keep([job])
        else:
            self._settle([job], error)

    def _keep(self, jobs: Sequence[writer.Job]) -> None:
        """To the spool: on local disk they are as safe as they can be, and whoever waits is told so."""
        assert self._spool is not None
        problem: StoreError | None = None
        try:
            if not self._spool.append(self._prepared(jobs)):
                problem = StoreError(f"cannot write {self._name}, and the spool is full", hint="see store.spool_mb")
        except (OSError, ValueError, TypeError, OverflowError) as error:
            problem = StoreError(f"cannot write {self._name}, nor the spool: {error}")
        self.is_degraded = True  # before anybody is told
        if problem is not None and self._gap is None:
            log.error("store_failed", path=self._name, error=str(problem), hint=problem.hint)
        self._settle(jobs, problem)

    # -- draining --------------------------------------------------------------------------------
    def _has_chores(self) -> bool:
        return self._spool is not None and (self._spool.batches > 0 or self._is_unchecked)

    def _chores(self, searchers: Sequence[asyncio.Future[None]], *, is_idle: bool) -> None:
        writer.tell(searchers, None)
        # What waits on disk when we are told to stop waits for the next start: a drain may take long.
        if self._is_open and self._has_chores() and time.monotonic() >= self._next_try:
            self._drain()
        if is_idle and self._is_open and self._gap is not None and not self._has_chores():
            self._commit(())

    def _drain(self) -> None:
        """Write what waits on disk, oldest first; what comes meanwhile goes behind it."""
        assert self._spool is not None
        if self._is_unchecked and self._within(WRITE_S, lambda database: None) is not None:
            return
        while self._spool.batches:
            try:
                batches = self._spool.first(_DRAIN_BYTES)
            except (OSError, ValueError) as error:
                self._lose(self._spool.batches, f"the spool cannot be read: {error}")
                return
            started = time.monotonic()
            failed = self._within(self._patience_s, self._rows(batches, None))
            if failed is None:
                self._spool.drop(len(batches))
                self._patience_s = WRITE_S
            elif self._is_shared(failed):
                if isinstance(failed.__cause__, OutOfTimeError):  # it may be slow: the next time it has longer
                    self._patience_s = min(2 * self._patience_s, DRAIN_S)
                self._back_off(started)
                return
            else:
                self._drain_singly(batches)
            if jobs := self._waiting():
                self._keep(jobs)
        log.info("store_caught_up", path=self._name)
        self.is_degraded = self._gap is not None

    def _drain_singly(self, batches: Sequence[Batch]) -> None:
        assert self._spool is not None
        for batch in batches:
            error = self._within(DRAIN_S, self._rows([batch], None))
            if error is not None and self._is_shared(error):
                return
            if error is not None:
                self._lose(1, str(error))
            self._spool.drop(1)

    def _lose(self, batches: int, reason: str) -> None:
        log.error("store_failed", path=self._name, error=reason)
        with self._changed:
            self._note_gap(batches, reason)

    def _shut(self) -> None:
        if self._spool is not None:
            self._spool.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _write_in_order(
    batches: Sequence[Batch], rows: Callable[[Sequence[Batch]], Callable[[Database], None]], database: Database
) -> None:
    """What replicas share is taken in one order over all batches: chains, bodies, and what was learned."""
    _lock(database, batches)
    bodies = sorted((body for batch in batches for body in batch.bodies), key=lambda body: body.hash)
    is_redacted = bool(write_bodies(database, bodies)) if bodies else False
    learned = {(row.upstream, row.model, row.name): row for batch in batches for row in batch.learned}
    learned = {key: row for key, row in learned.items() if len("".join(key).encode()) < _LONGEST_KEY}
    plain = [replace(batch, bodies=batch.bodies if is_redacted else (), learned=()) for batch in batches]
    if learned:
        plain.append(Batch(learned=tuple(learned[key] for key in sorted(learned))))
    rows(plain)(database)
    postgres_search.index(database, batches)


def _lock(database: Database, batches: Sequence[Batch]) -> None:
    """Lock the chains that these batches add to; those that are new begin here, behind the lock of the count."""
    chains: dict[str, None] = {}
    exchanges = {row.id for batch in batches for row in batch.exchanges}
    for batch in batches:
        for exchange in batch.exchanges:
            chains[exchange.conversation or STRAY + exchange.tenant] = None
        for item in (*batch.items, *batch.replies):
            chains[item.conversation or STRAY] = None
        told_of = [row.conversation for row in batch.summaries] + [row.conversation for row in batch.summary_calls]
        chains.update((conversation or STRAY, None) for conversation in told_of)
    begun = sorted(chains)
    told = {row.exchange for batch in batches for row in batch.outcomes}
    told |= {row.exchange for batch in batches for row in batch.windows}
    told -= exchanges
    if told:
        for conversation, tenant in database.execute(_OF_EXCHANGES_SQL, (sorted(told),)).fetchall():
            chains[conversation or STRAY + tenant] = None
    chains.update(dict.fromkeys(row.conversation for batch in batches for row in batch.branches if row.conversation))
    if not chains:
        return
    known = {row[0] for row in database.execute(_LOCK_SQL, (sorted(chains),)).fetchall()}
    for chain in begun:
        if chain not in known:
            database.execute(_BEGIN_SQL, (chain,))


def _named(error: BaseException, url: str) -> StoreError:
    ours = store_error(error, url, "write")
    ours.__cause__ = error
    return ours
