"""Lists conversations that fit filters, newest first: the same ones that an export with these filters holds."""

from __future__ import annotations

import sqlite3
from typing import Any

from proxy.core.filters import Filters
from proxy.core.records import ConversationSummary
from proxy.store.archive import filter_clause
from proxy.store.codec import unpack_text

_FIRST_TEXT_CHARS = 200
_LIST_SQL = (
    "SELECT v.id, v.tenant, v.model, (SELECT count(*) FROM branches b WHERE b.conversation = v.id), v.exchanges,"
    " v.items, v.input, v.cached, v.output, v.cost, v.saved_tokens, v.folds, v.created_at, v.updated_at"
    " FROM chains c JOIN conversations v ON v.id = c.id WHERE 1"
)
_FIRST_TEXT_SQL = (
    "SELECT text FROM messages WHERE conversation = ? AND role = 'user' AND kind = 'message' ORDER BY seq LIMIT 1"
)
_TOTALS_SQL = (
    "SELECT count(DISTINCT e.conversation), count(*), coalesce(sum(o.input), 0), coalesce(sum(o.cached), 0),"
    " coalesce(sum(o.output), 0), coalesce(sum(o.cost), 0), coalesce(sum(o.cost_direct), 0), coalesce(sum(o.breaks), 0)"
    " FROM exchanges e JOIN outcomes o ON o.exchange = e.id WHERE e.chain IN"
    " (SELECT c.number FROM chains c JOIN conversations v ON v.id = c.id WHERE 1"
)


def listed(
    connection: sqlite3.Connection, filters: Filters, limit: int, offset: int = 0
) -> list[ConversationSummary]:  # fmt: skip
    """A page of the list."""
    clause, values = filter_clause(filters)
    statement = f"{_LIST_SQL}{clause} ORDER BY v.last_exchange DESC, v.rowid DESC LIMIT ? OFFSET ?"
    lines = []
    for id, tenant, model, *figures in connection.execute(statement, (*values, limit, offset)).fetchall():
        first = connection.execute(_FIRST_TEXT_SQL, (id,)).fetchone()
        text = unpack_text(first[0])[:_FIRST_TEXT_CHARS] if first else ""
        lines.append(ConversationSummary(id, tenant, model, text, *figures))
    return lines


def totals(connection: sqlite3.Connection, filters: Filters) -> dict[str, Any]:
    """Sums over the calls of all conversations that fit: billed, and what it would have cost directly."""
    clause, values = filter_clause(filters)
    names = ("conversations", "calls", "input", "cached", "output", "cost", "cost_direct", "breaks")
    row = connection.execute(f"{_TOTALS_SQL}{clause})", values).fetchone()
    return dict(zip(names, row, strict=True))
