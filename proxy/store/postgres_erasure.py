"""Erases conversations from PostgreSQL on an explicit order, with signed tombstones in their place.

The rows go in one transaction, and the tables are written anew, so that no page keeps them. The database's own
write-ahead log, its archive, replicas and backups are beyond its reach: they age out as they are set up to.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import psycopg

from proxy.store.archive import ChainLine
from proxy.store.erasure import erase_chain, stone
from proxy.store.postgres_connection import connect_ready, store_error
from proxy.store.postgres_schema import guards, unguards
from proxy.store.seals import TABLES
from proxy.store.tombstones import signed

_PATIENCE_S = 3600.0
_TABLES = (*(table.name for table in TABLES), "bodies", "working", "branches", "items_fts", "links", "marks", "keys")


def erase(url: str, chains: Sequence[ChainLine], *, secret: bytes, reason: str, at: str) -> None:
    """Remove everything that belongs to these chains. Raises `StoreError`; then nothing is removed."""
    with closing(connect_ready(url)) as database:
        is_done = False
        try:
            database.allow(_PATIENCE_S)
            database.execute("BEGIN")
            for statement in unguards():
                database.execute(statement)
            for chain in chains:
                erase_chain(database, chain, signed(stone(chain, reason, at), secret))
                database.execute("DELETE FROM items_fts WHERE conversation = ?", (chain.id,))
            for statement in guards():
                database.execute(statement)
            database.rest()
            is_done = True
            for table in _TABLES:
                database.execute(f"VACUUM (FULL) {table}")
        except psycopg.Error as error:
            raise store_error(error, url, "vacuum" if is_done else "erase from") from error
