"""Full text in PostgreSQL: words as SQLite's index cuts them, ranked by ts_rank. Written with the messages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from proxy.core.records import Batch, ItemRow
from proxy.store.codec import storable
from proxy.store.database import Cursor, Database, stream
from proxy.store.search_query import SearchQuery

_BREAK = re.compile(r"[\W_]+")
# A tsvector holds a megabyte, and positions up to 16,383: a long text is several parts.
_PART_WORDS = 12_000
_PART_CHARS = 150_000

_NEW_SQL = (
    "SELECT m.seq, m.id FROM messages m WHERE m.conversation = ? AND m.id = ANY(?) AND NOT EXISTS"
    " (SELECT 1 FROM items_fts f WHERE f.conversation = m.conversation AND f.seq = m.seq)"
)
_INSERT_SQL = (
    "INSERT INTO items_fts (seq, part, conversation, words) VALUES (?, ?, ?, to_tsvector('simple', ?))"
    " ON CONFLICT DO NOTHING"
)


def words_of(text: str) -> list[str]:
    """Runs of letters and digits, lower case, without accents."""
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", storable(text)) if not unicodedata.combining(c))
    return _BREAK.sub(" ", text.lower()).split()


def index(database: Database, batches: Sequence[Batch]) -> None:
    """Index the messages that these batches brought, inside their transaction."""
    texts: dict[str, dict[str, str]] = {}
    for batch in batches:
        for item in _items(batch):
            if item.text and not item.origin:
                texts.setdefault(item.conversation, {}).setdefault(item.id, item.text)
    for conversation, by_id in texts.items():
        found = database.execute(_NEW_SQL, (conversation, list(by_id))).fetchall()
        add(database, [(seq, conversation, by_id[id]) for seq, id in found])


def add(database: Database, messages: Sequence[tuple[int, str, str]]) -> None:
    """Index messages by number, conversation and text."""
    rows = [(seq, part, name, words) for seq, name, text in messages for part, words in enumerate(_parts(text))]
    database.executemany(_INSERT_SQL, rows)


def ranked(database: Database, query: SearchQuery, tenant: str | None, conversation: str | None) -> Cursor:
    """A message's rank is that of its best part; each word must stand in one of them."""
    phrases = [" ".join(words) for phrase in query.phrases if (words := words_of(phrase))]
    asked = [f"phraseto_tsquery('simple', ?{place})" for place in range(4, 4 + len(phrases))]
    statement = (
        "SELECT f.seq FROM items_fts f JOIN conversations c ON c.id = f.conversation"  # noqa: S608 - our own words
        f" WHERE ({' OR '.join(f'f.words @@ {one}' for one in asked)})"
        " AND (CAST(?1 AS TEXT) IS NULL OR c.tenant = ?1) AND (CAST(?2 AS TEXT) IS NULL OR f.conversation = ?2)"
        f" GROUP BY f.seq HAVING {' AND '.join(f'bool_or(f.words @@ {one})' for one in asked)}"
        f" ORDER BY max(ts_rank(f.words, {' || '.join(asked)}, CAST(?3 AS INTEGER))) DESC, f.seq"
    )
    return stream(database, statement, (tenant, conversation, 1, *phrases))


def _items(batch: Batch) -> Iterator[ItemRow]:
    yield from batch.items
    yield from batch.replies
    for fold in batch.folds:
        yield from fold.fresh


def _parts(text: str) -> Iterator[str]:
    part: list[str] = []
    size = 0
    for word in words_of(text):
        part.append(word)
        size += len(word)
        if len(part) >= _PART_WORDS or size >= _PART_CHARS:
            yield " ".join(part)
            part, size = [], 0
    if part:
        yield " ".join(part)
