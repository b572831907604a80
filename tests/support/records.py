"""What the store holds, read from outside while the proxy runs or after it died: as another process would see it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from proxy.core.records import BranchRow, ExchangeRow, LearnedRow, OutcomeRow
from proxy.store import reader
from proxy.store.postgres_connection import connect
from proxy.store.sqlite_connection import connect_reader
from proxy.wire.readable import readable_text

T = TypeVar("T")


class Records:
    """Reads one database file, each time anew."""

    def __init__(self, db: Path | str) -> None:
        self._db = db

    def _read(self, read: Callable[[Any], T]) -> T:
        if "://" in str(self._db):
            with closing(connect(str(self._db))) as database:
                found = read(database)
                database.rest()
                return found
        with closing(connect_reader(Path(self._db))) as connection:
            return read(connection)

    def conversations(self) -> list[str]:
        return [row.id for row in self._read(lambda db: reader.conversations(db, None, 1000))]

    def exchanges(self, conversation: str = "") -> list[tuple[ExchangeRow, OutcomeRow | None]]:
        """Without a conversation: those that were passed as they came."""
        return self._read(lambda db: reader.exchanges(db, conversation))

    def outcomes(self, conversation: str = "") -> list[OutcomeRow]:
        return [outcome for _, outcome in self.exchanges(conversation) if outcome is not None]

    def outcome(self, conversation: str = "") -> OutcomeRow:
        """The last one."""
        return self.outcomes(conversation)[-1]

    def branches(self, conversation: str) -> list[BranchRow]:
        return self._read(lambda db: reader.branches(db, conversation))

    def learned(self) -> list[LearnedRow]:
        return self._read(reader.learned)

    def texts(self, conversation: str) -> list[str]:
        """Every stored message of the conversation, readable, oldest first."""
        rows = self._read(lambda db: reader.transcript_page(db, conversation, None, 0))
        return [readable_text(row.data) for row in rows]

    def raws(self, conversation: str) -> list[bytes]:
        rows = self._read(lambda db: reader.transcript_page(db, conversation, None, 0))
        return [row.data for row in rows]

    def folds(self, conversation: str) -> list[Any]:
        return list(self._read(lambda db: reader.folds(db, conversation)))


def eventually(look: Callable[[], T], timeout_s: float = 5.0) -> T:
    """The first true answer. For what another thread or process does and cannot tell."""
    end = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"still {found!r} after {timeout_s} s")
        time.sleep(0.01)
