"""Gives new display rows their place in their conversation's chain, inside an open transaction. Commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.store import signatures
from proxy.store.database import Database
from proxy.store.seals import BY_NAME, FIRST, STRAY, SealedTable, from_columns, plain, seal, to_columns

SEAL_COLUMNS = ("chain", "place", "seal")

_CHAIN_SQL = "SELECT number, length, head FROM chains WHERE id = ?"
_NEW_SQL = "INSERT INTO chains (id, length, head) VALUES (?, 0, x'') ON CONFLICT (id) DO NOTHING RETURNING number"
_HEAD_SQL = "UPDATE chains SET length = ?, head = ? WHERE number = ?"
_SIGNED_HEAD_SQL = "UPDATE chains SET length = ?, head = ?, signature = ? WHERE number = ?"
_OF_EXCHANGE_SQL = "SELECT conversation, tenant FROM exchanges WHERE id = ?"
_OF_BRANCH_SQL = "SELECT conversation FROM branches WHERE id = ?"


@dataclass(slots=True)
class _Head:
    number: int
    length: int
    head: bytes
    is_moved: bool = False


class Sealer:
    """The chains that one batch adds to: one look-up and one update for each of them. Heads are signed with a key."""

    def __init__(self, connection: Database, secret: bytes = b"") -> None:
        self._connection = connection
        self._secret = secret
        self._heads: dict[str, _Head] = {}
        self._of_exchange: dict[str, str] = {}
        self._of_branch: dict[str, str] = {}

    def knows(self, exchanges: Iterable[tuple[str, str, str]], branches: Iterable[tuple[str, str]]) -> None:
        """Spares look-ups: (exchange, conversation, tenant) and (branch, conversation) of the batch itself."""
        for exchange, conversation, tenant in exchanges:
            self._of_exchange[exchange] = conversation or STRAY + tenant
        self._of_branch.update(branches)

    def chain_of_exchange(self, exchange: str) -> str:
        chain = self._of_exchange.get(exchange)
        if chain is None:
            row = self._connection.execute(_OF_EXCHANGE_SQL, (exchange,)).fetchone()
            chain = self._of_exchange[exchange] = (row[0] or STRAY + row[1]) if row else STRAY
        return chain

    def chain_of_branch(self, branch: str) -> str:
        chain = self._of_branch.get(branch)
        if chain is None:
            row = self._connection.execute(_OF_BRANCH_SQL, (branch,)).fetchone()
            chain = self._of_branch[branch] = row[0] if row else STRAY
        return chain

    def seals(self, chain: str, table: str, rows: Iterable[Sequence[Any]]) -> Iterator[tuple[int, int, bytes]]:
        """(chain, place, seal) for each of these rows, which are all new; the chain moves on with them."""
        head = self._head(chain)
        for values in rows:
            head.length += 1
            head.head = seal(head.head, table, head.length, values)
            head.is_moved = True
            yield head.number, head.length, head.head

    def insert(self, statement: str, table: SealedTable, chain: str, fields: Sequence[Any]) -> bool:
        """Insert one row, sealed. False, and nothing has moved, for one that is known."""
        head = self._head(chain)
        values = plain(table, fields)
        mark = seal(head.head, table.name, head.length + 1, values)
        columns = (*to_columns(table, values), head.number, head.length + 1, mark)
        if self._connection.execute(statement, columns).rowcount != 1:
            return False
        head.length, head.head, head.is_moved = head.length + 1, mark, True
        return True

    def finish(self) -> None:
        """Record the heads."""
        moved = {id: head for id, head in self._heads.items() if head.is_moved}
        if not self._secret:
            rows = [(head.length, head.head, head.number) for head in moved.values()]
            self._connection.executemany(_HEAD_SQL, rows)
            return
        signed = [
            (
                head.length,
                head.head,
                signatures.signature(self._secret, "chain", id, head.length, head.head),
                head.number,
            )
            for id, head in moved.items()
        ]
        self._connection.executemany(_SIGNED_HEAD_SQL, signed)

    def _head(self, chain: str) -> _Head:
        head = self._heads.get(chain)
        if head is None:
            row = self._connection.execute(_CHAIN_SQL, (chain,)).fetchone()
            if row is None:
                begun = self._connection.execute(_NEW_SQL, (chain,)).fetchall()
                # Another process was first: its rows are behind that lock, and there by now.
                row = (begun[0][0], 0, FIRST) if begun else self._connection.execute(_CHAIN_SQL, (chain,)).fetchone()
            head = self._heads[chain] = _Head(*row)
        return head


def chain_finder(sealer: Sealer, table: SealedTable) -> Callable[[Sequence[Any]], str]:
    """How the chain of a row of `table` is found from its plain values."""
    at = {name: place for place, name in enumerate(table.names)}
    if table.name == "exchanges":
        return lambda values: values[at["conversation"]] or STRAY + values[at["tenant"]]
    if "conversation" in at:
        return lambda values: values[at["conversation"]] or STRAY
    if "exchange" in at:
        return lambda values: sealer.chain_of_exchange(values[at["exchange"]])
    if "branch" in at:
        return lambda values: sealer.chain_of_branch(values[at["branch"]])
    return lambda _values: STRAY


def seal_existing(connection: Database, tables: Sequence[str]) -> None:
    """Chain all rows that were written before there were seals: table by table, in the order they came."""
    sealer = Sealer(connection)
    for table in (BY_NAME[name] for name in tables):
        chain_of = chain_finder(sealer, table)
        names = ", ".join(f'"{name}"' for name in table.names)
        update = f"UPDATE {table.name} SET chain = ?, place = ?, seal = ? WHERE seq = ?"  # noqa: S608 - our own names
        after = 0
        while True:
            page = connection.execute(
                f"SELECT seq, {names} FROM {table.name} WHERE seq > ? ORDER BY seq LIMIT 500",  # noqa: S608
                (after,),
            ).fetchall()
            if not page:
                break
            for seq, *columns in page:
                values = from_columns(table, columns)
                for mark in sealer.seals(chain_of(values), table.name, [values]):
                    connection.execute(update, (*mark, seq))
            after = page[-1][0]
    sealer.finish()
