"""Fills the full-text index behind the writes, in bulk: the words of one message alone cost five times as much."""

from __future__ import annotations

from proxy.store.codec import storable, unpack_text
from proxy.store.database import Database

_STEP_ROWS = 512
_STEP_BYTES = 4 << 20


def index_some(connection: Database) -> bool:
    """Index the next messages inside an open transaction. True when there may be more."""
    done = connection.execute("SELECT indexed_to FROM search_index").fetchone()[0]
    rows = connection.execute("SELECT seq, text FROM messages WHERE seq > ? ORDER BY seq LIMIT ?", (done, _STEP_ROWS))
    last, size, texts = done, 0, list[tuple[int, str]]()
    for seq, packed in rows:
        text = unpack_text(packed)
        last, size = seq, size + len(text)
        if text:
            texts.append((seq, storable(text).replace("\0", " ")))
        if size >= _STEP_BYTES:
            break
    rows.close()
    if last == done:
        return False
    connection.executemany("INSERT INTO items_fts (rowid, text) VALUES (?, ?)", texts)
    connection.execute("UPDATE search_index SET indexed_to = ?", (last,))
    return True
