"""What the statements of the store run on: a connection of SQLite, or one of another database that speaks alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Cursor(Protocol):
    """The rows of one statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def close(self) -> None: ...


class Database(Protocol):
    """Takes statements in SQLite's words, with a mark for each value; what another database says otherwise, it
    translates. Foreign errors come through as they are."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor: ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Cursor: ...

    def close(self) -> None: ...


def stream(database: Database, statement: str, values: Sequence[Any]) -> Cursor:
    """The rows as they are asked for, where they may be large and not all are wanted."""
    streamed: Cursor = getattr(database, "stream", database.execute)(statement, values)
    return streamed
