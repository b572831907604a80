"""The PostgreSQL store: one database for several replicas, one writer thread and a few readers in each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from proxy.core.records import Batch, BranchRow, LearnedRow
from proxy.errors import StoreError
from proxy.store import postgres_search, reader
from proxy.store.postgres_connection import shown
from proxy.store.postgres_pool import PostgresPool
from proxy.store.postgres_writer import Writer
from proxy.store.secret import keep_secret
from proxy.store.spool import Spool
from proxy.store.sql_store import SqlStore


class PostgresStore(SqlStore):
    """Display and working store in one database.

    `secret_file` holds the key that all replicas share; `spool` is a local folder for what is written while the
    database is away: without one, that is refused.
    """

    _ranked = staticmethod(postgres_search.ranked)

    def __init__(
        self,
        url: str,
        *,
        max_queue_bytes: int = 64 << 20,
        readers: int = 4,
        on_batch: Callable[[Batch], None] = lambda batch: None,
        prepare: Callable[[Batch], Batch] | None = None,
        secret_file: Path | None = None,
        spool: Path | None = None,
        max_spool_bytes: int = 1 << 30,
    ) -> None:
        self._url = url
        self._readers = readers
        self._on_learned: Callable[[list[LearnedRow]], None] = lambda learned: None
        self._secret_file = secret_file
        kept = Spool(spool / name_of(url), max_spool_bytes) if spool is not None else None
        super().__init__(shown(url), Writer(url, max_queue_bytes, prepare, self._secret, kept), on_batch)

    def listen(self, on_learned: Callable[[list[LearnedRow]], None]) -> None:
        """Hear what is known of the models whenever a conversation is looked for: it may be another replica's turn."""
        self._on_learned = on_learned

    async def find_branches(
        self, tenant: str, keys: Sequence[tuple[str, bytes]], scope: str, limit: int = 32
    ) -> list[BranchRow]:
        found, learned = await self._read(
            lambda db: (reader.find_branches(db, tenant, keys, scope, limit), reader.learned(db))
        )
        self._on_learned(learned)
        return found

    def _new_pool(self) -> PostgresPool:
        return PostgresPool(self._url, self._readers)

    def _secret(self) -> bytes:
        if self._secret_file is None:
            return b""
        try:
            return keep_secret(self._secret_file)
        except OSError as error:
            raise StoreError(
                f"cannot keep the key {self._secret_file}: {error}", hint="see store.secret_file"
            ) from error


def name_of(url: str) -> str:
    """A name for files that belong to a database, the same for each user and password."""
    return f"postgresql-{sha256(shown(url).encode()).hexdigest()[:12]}"
