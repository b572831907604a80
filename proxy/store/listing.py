"""Lists conversations that fit filters, newest first: the same ones that an export with these filters holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.core.filters import Filters
from proxy.core.records import ConversationSummary
from proxy.store.archive import filter_clause
from proxy.store.codec import unpack_text
from proxy.store.database import Database

_FIRST_TEXT_CHARS = 200
_LIST_SQL = (
    "SELECT v.id, v.tenant, v.model, (SELECT count(*) FROM branches b WHERE b.conversation = v.id), v.exchanges,"
    " v.items, v.input, v.cached, v.output, v.cost, v.saved_tokens, v.folds, v.created_at, v.updated_at"
    " FROM chains c JOIN conversations v ON v.id = c.id WHERE TRUE"
)
_FIRST_TEXT_SQL = (
    "SELECT text FROM messages WHERE conversation = ? AND role = 'user' AND kind = 'message' ORDER BY seq LIMIT 1"
)
_TOTALS_SQL = (
    "SELECT count(DISTINCT e.conversation), count(*), CAST(coalesce(sum(o.input), 0) AS BIGINT),"
    " CAST(coalesce(sum(o.cached), 0) AS BIGINT), CAST(coalesce(sum(o.output), 0) AS BIGINT),"
    " coalesce(sum(o.cost), 0), coalesce(sum(o.cost_direct), 0), CAST(coalesce(sum(o.breaks), 0) AS BIGINT)"
    ", count(o.cost)"
    " FROM exchanges e JOIN outcomes o ON o.exchange = e.id WHERE e.chain IN"
    " (SELECT c.number FROM chains c JOIN conversations v ON v.id = c.id WHERE TRUE"
)


def listed(
    connection: Database, filters: Filters, limit: int, offset: int = 0
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


def totals(connection: Database, filters: Filters) -> dict[str, Any]:
    """Sums over the calls of all conversations that fit: billed, and what it would have cost directly."""
    clause, values = filter_clause(filters)
    names = ("conversations", "calls", "input", "cached", "output", "cost", "cost_direct", "breaks", "priced")
    row = connection.execute(f"{_TOTALS_SQL}{clause})", values).fetchone()
    return dict(zip(names, row, strict=True))


def unpriced(connection: Database, ids: Sequence[str]) -> frozenset[str]:
    """Those of the conversations in which no call has a known price: their sum of nothing says nothing."""
    statement = (
        "SELECT EXISTS (SELECT 1 FROM exchanges e JOIN outcomes o ON o.exchange = e.id"
        " WHERE e.conversation = ? AND o.cost IS NOT NULL)"
    )
    return frozenset(id for id in ids if not connection.execute(statement, (id,)).fetchone()[0])


# -- one conversation, for the page ----------------------------------------------------------------
_TIMELINE_SQL = (
    "SELECT e.id, e.created_at, e.verdict, coalesce(o.outcome, ''), coalesce(o.input, 0), coalesce(o.cached, 0),"
    " coalesce(o.output, 0), o.cost, o.cost_direct, coalesce(o.breaks, 0), coalesce(w.id, ''),"
    " coalesce(w.tokens_in, 0), coalesce(w.tokens_out, 0), coalesce(w.reason, ''), e.note"
    " FROM exchanges e LEFT JOIN outcomes o ON o.exchange = e.id"
    " LEFT JOIN windows w ON w.exchange = e.id AND w.attempt = coalesce(o.attempts, 1)"
    " WHERE e.conversation = ? ORDER BY e.seq"
)
TIMELINE = (
    *("exchange", "created_at", "verdict", "outcome", "input", "cached", "output", "cost", "cost_direct", "breaks"),
    *("window", "tokens_in", "tokens_out", "reason", "note"),
)


def timeline(connection: Database, conversation: str) -> list[dict[str, Any]]:
    """One entry a call, oldest first: what it was billed, and what its window was."""
    return [dict(zip(TIMELINE, row, strict=True)) for row in connection.execute(_TIMELINE_SQL, (conversation,))]


def message_count(connection: Database, conversation: str) -> int:
    statement = "SELECT count(*) FROM messages WHERE conversation = ?"
    return int(connection.execute(statement, (conversation,)).fetchone()[0])


def short_messages(connection: Database, conversation: str, most_bytes: int) -> list[bool]:
    """For each message in order, whether its original is so short. Reads no text."""
    statement = (
        "SELECT coalesce(b.size, 0) <= ? FROM messages m LEFT JOIN bodies b ON b.hash = m.body"
        " WHERE m.conversation = ? ORDER BY m.seq"
    )
    return [bool(row[0]) for row in connection.execute(statement, (most_bytes, conversation))]


def before(connection: Database, conversation: str, start: int) -> int:
    """The sequence number behind which a conversation's message number `start` (from 0) stands."""
    if start < 1:
        return 0
    statement = "SELECT seq FROM messages WHERE conversation = ? ORDER BY seq LIMIT 1 OFFSET ?"
    row = connection.execute(statement, (conversation, start - 1)).fetchone()
    return int(row[0]) if row else 1 << 62


def place_of(connection: Database, conversation: str, item: str) -> int:
    """The number of an item among its conversation's messages, from 0; -1 for none."""
    statement = (
        "SELECT count(*) FROM messages m WHERE m.conversation = ?1 AND m.seq <"
        " (SELECT seq FROM messages WHERE conversation = ?1 AND id = ?2)"
    )
    known = "SELECT 1 FROM messages WHERE conversation = ? AND id = ?"
    if connection.execute(known, (conversation, item)).fetchone() is None:
        return -1
    return int(connection.execute(statement, (conversation, item)).fetchone()[0])


def newest(connection: Database) -> str:
    """Changes with everything that the list shows."""
    row = connection.execute("SELECT max(last_exchange), max(updated_at), count(*) FROM conversations").fetchone()
    return "-".join(str(value) for value in row)
