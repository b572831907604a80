"""The one thread that writes: takes all that is queued, commits it as one transaction, then tells those who wait.

A failure reaches the waiting futures as a StoreError and is never raised here; the next batch tries anew.
What the database itself asks for is in the subclass of its kind.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import structlog

from proxy.core.records import Batch
from proxy.errors import StoreError
from proxy.store.codec import batch_bytes
from proxy.store.database import Database
from proxy.store.rows import cleaned, write_batches, write_gap

_IDLE_S = 1.0
HOLD_S = 0.01
"""So long a batch may wait for another one: the request's rows for the reply's, where that comes at once."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    batch: Batch
    size: int
    future: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class Gap:
    """Batches that were refused or lost since the last successful write."""

    started_at: str
    batches: int
    reason: str


class Writer:
    """Owns the writing connection. `put` is called on the event loop and never blocks it."""

    def __init__(
        self,
        name: str,
        max_queue_bytes: int,
        prepare: Callable[[Batch], Batch] | None = None,
        secret_of: Callable[[], bytes] = bytes,
    ) -> None:
        self._name = name  # what messages call the store
        self._max_queue_bytes = max_queue_bytes
        self._prepare = prepare  # what a batch goes through before it is written, on the writer's thread
        self._secret_of = secret_of  # the key that heads are signed with
        self._secret = b""
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._queue: list[Job] = []
        self._queued_bytes = 0  # what is waiting and what is being written
        self._is_due = False  # what is queued is to be written now
        self._searchers: list[asyncio.Future[None]] = []
        self._is_open = False
        self._gap: Gap | None = None
        self.is_degraded = False

    # -- what a database brings ------------------------------------------------------------------
    def _open(self) -> None:
        """Connect and migrate. Blocks; raises StoreError."""
        raise NotImplementedError

    def _transact(self, write: Callable[[Database], None]) -> StoreError | None:
        """Run `write` as one transaction; the error, with the foreign one as its cause."""
        raise NotImplementedError

    def _is_shared(self, error: StoreError) -> bool:
        """A fault that each batch would only meet again, after the same wait."""
        raise NotImplementedError

    def _rows(self, batches: Sequence[Batch], gap: Gap | None) -> Callable[[Database], None]:
        """What writes them, inside a transaction."""
        return partial(_write_rows, batches, gap, self._secret)

    def _written(self, batches: Sequence[Batch]) -> None:
        """These were committed."""

    def _has_chores(self) -> bool:
        """Whether there is something to do when nothing is to be written."""
        return False

    def _chores(self, searchers: Sequence[asyncio.Future[None]], *, is_idle: bool) -> None:
        """What is done between two writes; `searchers` wait for all that is written to be found."""
        tell(searchers, None)

    def _shut(self) -> None:
        """Close the connection. The thread ends."""

    # -- from the event loop -----------------------------------------------------------------------
    def start(self) -> None:
        """Connect, migrate and start the thread. Blocks; raises StoreError."""
        self._secret = self._secret_of()  # before there is a file: then a new one gets a key
        self._open()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name="undercliff-store-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is queued, then close. Blocks; idempotent."""
        with self._changed:
            self._is_open = False
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def put(self, batch: Batch, *, may_wait: bool = False) -> asyncio.Future[None]:
        """Queue a batch; over the bound it is refused at once, but a lone batch of any size is taken."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        size = batch_bytes(batch)
        with self._changed:
            if not self._is_open:
                resolve([future], StoreError(f"the store {self._name} is closed"))
            elif self._queued_bytes and self._queued_bytes + size > self._max_queue_bytes:
                error = StoreError(f"cannot keep up writing {self._name}: {self._queued_bytes >> 20} MiB are waiting")
                self._note_gap(1, str(error))
                resolve([future], error)
            else:
                self._queued_bytes += size
                self._queue.append(Job(batch, size, future))
                if not may_wait:
                    self._is_due = True
                    self._changed.notify()
                elif len(self._queue) == 1:
                    loop.call_later(HOLD_S, self.hurry)
        return future

    def hurry(self) -> None:
        """Write what is queued now."""
        with self._changed:
            if self._queue and not self._is_due:
                self._is_due = True
                self._changed.notify()

    def catch_up(self) -> asyncio.Future[None]:
        """Done when the index holds all that is written; a StoreError when it cannot be brought there."""
        future = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._is_open:
                self._searchers.append(future)
                self._changed.notify()
            else:
                resolve([future], StoreError(f"the store {self._name} is closed"))
        return future

    # -- the thread ------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            while (work := self._take()) is not None:
                jobs, searchers = work
                if jobs:
                    self._write(jobs)
                self._chores(searchers, is_idle=not jobs and not searchers)
            if self._gap is not None:
                self._commit(())
            self._chores((), is_idle=True)
        finally:
            self._close()

    def _take(self) -> tuple[Sequence[Job], Sequence[asyncio.Future[None]]] | None:
        """All that is queued; nothing after an idle while with something to tidy; None at the end."""
        with self._changed:
            while not (self._queue and (self._is_due or not self._is_open)) and not self._searchers:
                if not self._is_open:
                    return None
                has_work = self._gap is not None or self._has_chores()
                if not self._changed.wait(_IDLE_S if has_work else None) and has_work:
                    return (), ()
            searchers, self._searchers = self._searchers, []
            return self._taken(), searchers

    def _waiting(self) -> Sequence[Job]:
        """What has come meanwhile."""
        with self._changed:
            return self._taken()

    def _taken(self) -> list[Job]:
        """The queue, which is empty then. Call it with the lock held."""
        jobs, self._queue = self._queue, []
        self._is_due = False
        return jobs

    def _write(self, jobs: Sequence[Job]) -> None:
        """One transaction; when it fails, one for each batch, so that a bad one fails alone."""
        error = self._commit(self._prepared(jobs))
        if error is None or len(jobs) == 1 or self._is_shared(error):
            self._settle(jobs, error)
            return
        for job in jobs:
            self._settle([job], self._commit(self._prepared([job])))

    def _prepared(self, jobs: Sequence[Job]) -> list[Batch]:
        return [job.batch if self._prepare is None else self._prepare(job.batch) for job in jobs]

    def _commit(self, batches: Sequence[Batch]) -> StoreError | None:
        with self._changed:
            gap, self._gap = self._gap, None
        error = self._transact(self._rows(batches, gap))
        if error is not None and isinstance(error.__cause__, UnicodeEncodeError):
            batches = [cleaned(batch) for batch in batches]
            error = self._transact(self._rows(batches, gap))
        if error is not None:
            self._restore_gap(gap)
            return error
        self._written(batches)
        if self.is_degraded:
            log.info("store_recovered", path=self._name, lost_batches=gap.batches if gap else 0)
        self.is_degraded = False
        return None

    def _settle(self, jobs: Sequence[Job], error: StoreError | None) -> None:
        if error is not None and not self.is_degraded:
            log.error("store_failed", path=self._name, error=str(error), hint=error.hint)
        with self._changed:
            self._queued_bytes -= sum(job.size for job in jobs)
            if error is not None:
                self._note_gap(len(jobs), str(error))
        tell([job.future for job in jobs], error)

    def _note_gap(self, batches: int, reason: str) -> None:
        """Call it with the lock held."""
        gap = self._gap or Gap(_now(), 0, reason)
        self._gap = replace(gap, batches=gap.batches + batches)
        self.is_degraded = True

    def _restore_gap(self, gap: Gap | None) -> None:
        """Put back what was not recorded, with what has come since."""
        if gap is None:
            return
        with self._changed:
            newer = self._gap.batches if self._gap else 0
            self._gap = replace(gap, batches=gap.batches + newer)

    def _close(self) -> None:
        """The thread ends: nobody may be left waiting, whatever ended it."""
        with self._changed:
            self._is_open = False
            jobs, self._queue = self._queue, []
            searchers, self._searchers = self._searchers, []
        error = StoreError(f"the store {self._name} was closed")
        if jobs:
            self._settle(jobs, error)
        tell(searchers, error)
        self._shut()


def _write_rows(batches: Sequence[Batch], gap: Gap | None, secret: bytes, connection: Database) -> None:
    write_batches(connection, batches, secret)
    if gap is not None:
        write_gap(connection, gap.started_at, _now(), gap.batches, gap.reason, secret)


def tell(futures: Sequence[asyncio.Future[None]], error: StoreError | None) -> None:
    """Resolve futures on their own loops, one call for each loop."""
    for loop in {future.get_loop() for future in futures}:
        theirs = [future for future in futures if future.get_loop() is loop]
        try:
            loop.call_soon_threadsafe(resolve, theirs, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            log.debug("store_waiters_gone", futures=len(theirs))


def resolve(futures: Sequence[asyncio.Future[None]], error: StoreError | None) -> None:
    for future in futures:
        if future.done():  # cancelled by the one who waited; the rows are on disk all the same
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # seen: a caller that does not wait learns it from `is_degraded`


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
