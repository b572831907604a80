"""The store's questions as plain functions over a read-only connection. Each fetches all it returns; none writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from proxy.core.records import (
    BranchRow,
    ConversationSummary,
    ExchangeRow,
    FoldRow,
    ItemRow,
    LearnedRow,
    LinkRow,
    MarkRow,
    OutcomeRow,
    PlanRow,
    StoredItem,
    SummaryCallRow,
    SummaryRow,
)
from proxy.store.codec import storable, unpack, unpack_strings, unpack_text
from proxy.store.database import Cursor, Database, stream
from proxy.store.rows import (
    BRANCH_FIELDS,
    EXCHANGE_FIELDS,
    FOLD_FIELDS,
    ITEM_FIELDS,
    OUTCOME_FIELDS,
    SUMMARY_CALL_FIELDS,
    SUMMARY_FIELDS,
    any_of,
    chunks,
    columns,
)
from proxy.store.search_query import SearchQuery, parse_query

_PAGE_ROWS = 256
_PAGE_BYTES = 4 << 20
_FIRST_TEXT_CHARS = 200

_MESSAGE = f"{columns(ITEM_FIELDS, 'm.')}, m.atoms, m.text"
_BRANCH = columns(BRANCH_FIELDS)
# A common text leads to very many branches: the newest of them are enough to choose from.
_BRANCHES_A_KEY = 256
_KEY_SQL = "SELECT branch FROM keys WHERE tenant = ? AND kind = ? AND key = ? ORDER BY branch DESC LIMIT ?"
_NUMBERED_SQL = (
    f"SELECT n.number, b.touched, {columns(BRANCH_FIELDS, 'b.')} FROM branch_numbers n"  # noqa: S608
    " JOIN branches b ON b.id = n.id WHERE b.tenant = ? AND n.number IN (?*)"
)
# A working row shows the display row of its item, or of the original that it re-inserts.
_VIEW = (
    f"SELECT w.seq, {_MESSAGE}, w.item, w.branch, w.origin, w.is_pinned, w.importance, w.is_summarized"  # noqa: S608
    " FROM working w JOIN messages m ON m.conversation = w.conversation"
    " AND m.id = CASE w.origin WHEN '' THEN w.item ELSE w.origin END"
)
# Through a list of numbers, so that what is sorted is numbers and not whole rows.
_NUMBERS = "w.seq IN (SELECT seq FROM working WHERE branch = ?)"
_VIEW_SQL = {
    None: f"{_VIEW} WHERE {_NUMBERS} ORDER BY w.seq",
    False: f"{_VIEW} WHERE w.branch = ? AND w.is_summarized = 0 ORDER BY w.seq",
    True: f"{_VIEW} WHERE {_NUMBERS} AND w.is_summarized = 1 ORDER BY w.seq",
}
_FRESH_SQL = f"{_VIEW} WHERE w.fold = ? AND w.fold > 0 ORDER BY w.seq"
_PAGE_SQL = (
    f"SELECT m.seq, {_MESSAGE}, b.data FROM messages m LEFT JOIN bodies b ON b.hash = m.body"  # noqa: S608
    " WHERE m.conversation = ? AND m.seq > ?"
)
_ITEMS_SQL = f"SELECT m.seq, {_MESSAGE} FROM messages m WHERE m.conversation = ? AND m.id IN (?*)"  # noqa: S608
_FIND_ITEM_SQL = (
    f"SELECT m.seq, {_MESSAGE} FROM messages m JOIN conversations c ON c.id = m.conversation"  # noqa: S608
    " WHERE m.id = ? AND (CAST(? AS TEXT) IS NULL OR c.tenant = ?) ORDER BY m.seq"
)
_HIT_SQL = f"SELECT m.seq, {_MESSAGE} FROM messages m WHERE m.seq = ?"  # noqa: S608
_HITS_SQL = (
    "SELECT f.rowid FROM items_fts f JOIN messages m ON m.seq = f.rowid"
    " JOIN conversations c ON c.id = m.conversation WHERE items_fts MATCH ?"
    " AND (? IS NULL OR c.tenant = ?) AND (? IS NULL OR m.conversation = ?) ORDER BY f.rank, f.rowid"
)
_EXCHANGES_SQL = (
    f"SELECT {columns(EXCHANGE_FIELDS, 'e.')}, {columns(OUTCOME_FIELDS, 'o.')}, o.reply_items"  # noqa: S608
    " FROM exchanges e LEFT JOIN outcomes o ON o.exchange = e.id"
)
_CONVERSATIONS_SQL = (
    "SELECT id, tenant, model, (SELECT count(*) FROM branches b WHERE b.conversation = c.id), exchanges, items,"
    " input, cached, output, cost, saved_tokens, folds, created_at, updated_at FROM conversations c"
)
_FIRST_TEXT_SQL = (
    "SELECT text FROM messages WHERE conversation = ? AND role = 'user' AND kind = 'message' ORDER BY seq LIMIT 1"
)


# -- identity ------------------------------------------------------------------------------------
def find_branches(
    connection: Database, tenant: str, keys: Sequence[tuple[str, bytes]], scope: str, limit: int
) -> list[BranchRow]:
    matches: Counter[int] = Counter()
    for kind, key in keys:
        matches.update(row[0] for row in connection.execute(_KEY_SQL, (tenant, kind, key, _BRANCHES_A_KEY)))
    best = sorted(matches, key=lambda number: (-matches[number], -number))[: max(limit, _BRANCHES_A_KEY)]
    known = []
    for some in chunks(best):
        for number, touched, *values in connection.execute(any_of(_NUMBERED_SQL, len(some)), (tenant, *some)):
            known.append((-matches[number], -touched, BranchRow(*values)))
    rows = [row for _, _, row in sorted(known, key=lambda entry: entry[:2])[:limit]]
    if scope:
        rows += _branches_of_scope(connection, tenant, scope, limit, {row.id for row in rows})
    rows = rows[:limit]
    return rows + _missing_parents(connection, tenant, rows)


def branch(connection: Database, branch_id: str) -> BranchRow | None:
    row = connection.execute(f"SELECT {_BRANCH} FROM branches WHERE id = ?", (branch_id,)).fetchone()  # noqa: S608
    return BranchRow(*row) if row else None


def branches(connection: Database, conversation: str) -> list[BranchRow]:
    statement = f"SELECT {_BRANCH} FROM branches WHERE conversation = ? ORDER BY rowid"  # noqa: S608
    return [BranchRow(*row) for row in connection.execute(statement, (conversation,))]


def _missing_parents(connection: Database, tenant: str, rows: Sequence[BranchRow]) -> list[BranchRow]:
    named = {row.id for row in rows}
    wanted = [id for id in dict.fromkeys(row.parent for row in rows) if id and id not in named]
    parents = []
    for some in chunks(wanted):
        statement = any_of(f"SELECT {_BRANCH} FROM branches WHERE tenant = ? AND id IN (?*)", len(some))  # noqa: S608
        parents += [BranchRow(*values) for values in connection.execute(statement, (tenant, *some))]
    return parents


def _branches_of_scope(connection: Database, tenant: str, scope: str, limit: int, known: set[str]) -> list[BranchRow]:
    statement = f"SELECT {_BRANCH} FROM branches WHERE tenant = ? AND scope = ? ORDER BY touched DESC LIMIT ?"  # noqa: S608
    rows = [BranchRow(*row) for row in connection.execute(statement, (tenant, scope, limit + len(known)))]
    return [row for row in rows if row.id not in known]


def items(connection: Database, conversation: str, ids: Sequence[str]) -> list[StoredItem]:
    found: dict[str, StoredItem] = {}
    for some in chunks(list(dict.fromkeys(ids))):
        for row in connection.execute(any_of(_ITEMS_SQL, len(some)), (conversation, *map(storable, some))):
            stored = StoredItem(row[0], _item(row[1:]))
            found[stored.row.id] = stored
    return [found[id] for id in ids if id in found]


def plan(connection: Database, plan_id: str) -> PlanRow | None:
    row = connection.execute("SELECT id, branch, data FROM plans WHERE id = ?", (plan_id,)).fetchone()
    return PlanRow(row[0], row[1], unpack(row[2])) if row else None


def summary(connection: Database, key: str) -> SummaryRow | None:
    statement = f"SELECT {columns(SUMMARY_FIELDS)}, covers FROM summaries WHERE key = ?"  # noqa: S608
    row = connection.execute(statement, (key,)).fetchone()
    return SummaryRow(**dict(zip(SUMMARY_FIELDS, row, strict=False)), covers=unpack_strings(row[-1])) if row else None


def summary_calls(connection: Database, conversation: str | None) -> list[SummaryCallRow]:
    chosen, values = ("", ()) if conversation is None else (" WHERE conversation = ?", (conversation,))
    statement = f"SELECT {columns(SUMMARY_CALL_FIELDS)} FROM summary_calls{chosen} ORDER BY seq"  # noqa: S608
    return [SummaryCallRow(*row) for row in connection.execute(statement, values)]


def claim(connection: Database, name: str) -> tuple[str, float] | None:
    row = connection.execute("SELECT owner, until FROM claims WHERE name = ?", (name,)).fetchone()
    return (row[0], row[1]) if row else None


def marks(connection: Database, conversation: str) -> list[MarkRow]:
    statement = "SELECT conversation, item, name, value FROM marks WHERE conversation = ? ORDER BY item, name"
    return [MarkRow(*row) for row in connection.execute(statement, (conversation,))]


def links(connection: Database, conversation: str) -> list[LinkRow]:
    statement = "SELECT conversation, a, b, type FROM links WHERE conversation = ? ORDER BY a, type, b"
    return [LinkRow(*row) for row in connection.execute(statement, (conversation,))]


def learned(connection: Database) -> list[LearnedRow]:
    statement = "SELECT upstream, model, name, value FROM learned ORDER BY upstream, model, name"
    return [LearnedRow(*row) for row in connection.execute(statement)]


# -- views ---------------------------------------------------------------------------------------
def conversations(connection: Database, tenant: str | None, limit: int) -> list[ConversationSummary]:
    """Newest first. The sums are kept by the database, so this reads a few rows for each line."""
    if tenant is None:
        cursor = connection.execute(f"{_CONVERSATIONS_SQL} ORDER BY last_exchange DESC, rowid DESC LIMIT ?", (limit,))
    else:
        cursor = connection.execute(
            f"{_CONVERSATIONS_SQL} WHERE tenant = ? ORDER BY last_exchange DESC, rowid DESC LIMIT ?", (tenant, limit)
        )
    lines = []
    for id, owner, model, *figures in cursor.fetchall():
        first = connection.execute(_FIRST_TEXT_SQL, (id,)).fetchone()
        first_text = unpack_text(first[0])[:_FIRST_TEXT_CHARS] if first else ""
        lines.append(ConversationSummary(id, owner, model, first_text, *figures))
    return lines


def transcript_page(connection: Database, conversation: str, branch_id: str | None, after: int) -> list[StoredItem]:
    """The next rows behind a sequence number: so many that neither time nor memory runs away."""
    statement, values = _PAGE_SQL, [conversation, after]
    if branch_id is not None:
        statement += " AND EXISTS (SELECT 1 FROM working w WHERE w.branch = ? AND w.item = m.id)"
        values.append(branch_id)
    page: list[StoredItem] = []
    size = 0
    cursor = stream(connection, f"{statement} ORDER BY m.seq LIMIT ?", (*values, _PAGE_ROWS))
    for seq, *fields, data in cursor:
        page.append(StoredItem(seq, _item(fields), data=unpack(data) if data is not None else b""))
        size += len(page[-1].data)
        if size >= _PAGE_BYTES:
            break
    cursor.close()
    return page


def view(connection: Database, branch_id: str, summarized: bool | None) -> list[StoredItem]:
    return [_working(row) for row in connection.execute(_VIEW_SQL[summarized], (branch_id,))]


def exchanges(connection: Database, conversation: str) -> list[tuple[ExchangeRow, OutcomeRow | None]]:
    cursor = connection.execute(f"{_EXCHANGES_SQL} WHERE e.conversation = ? ORDER BY e.seq", (conversation,))
    return [_exchange(row) for row in cursor]


def exchange(connection: Database, id: str) -> tuple[ExchangeRow, OutcomeRow | None] | None:
    row = connection.execute(f"{_EXCHANGES_SQL} WHERE e.id = ?", (id,)).fetchone()
    return _exchange(row) if row else None


def folds(connection: Database, conversation: str) -> list[FoldRow]:
    statement = f"SELECT seq, {columns(FOLD_FIELDS)} FROM folds WHERE conversation = ? ORDER BY seq"  # noqa: S608
    found = []
    for seq, *values in connection.execute(statement, (conversation,)).fetchall():
        fresh = tuple(_working(row).row for row in connection.execute(_FRESH_SQL, (seq,)))
        found.append(FoldRow(**dict(zip(FOLD_FIELDS, values, strict=True)), fresh=fresh))
    return found


def windows(connection: Database, conversation: str) -> list[str]:
    statement = (
        "SELECT w.id FROM exchanges e JOIN windows w ON w.exchange = e.id WHERE e.conversation = ? ORDER BY w.seq"
    )
    return [row[0] for row in connection.execute(statement, (conversation,))]


def body(connection: Database, hash: bytes) -> bytes | None:
    row = connection.execute("SELECT data FROM bodies WHERE hash = ?", (hash,)).fetchone()
    return unpack(row[0]) if row else None


def find_item(connection: Database, item: str, tenant: str | None) -> list[ItemRow]:
    return [_item(row[1:]) for row in connection.execute(_FIND_ITEM_SQL, (storable(item), tenant, tenant))]


def coverage(connection: Database, conversation: str, item: str) -> tuple[str, ...]:
    """The originals behind a summary item, in order; what it names of other summaries' items is looked up in turn."""
    originals: dict[str, None] = {}
    known = {item}
    asked = [item]
    while asked:
        found = dict.fromkeys(_covered(connection, conversation, asked))
        for id in found:
            originals.setdefault(id)
        asked = [id for id in _summaries_among(connection, conversation, list(found)) if id not in known]
        known.update(asked)
    for id in known:
        originals.pop(id, None)
    order = {stored.row.id: stored.seq for stored in items(connection, conversation, list(originals))}
    return tuple(sorted(originals, key=lambda id: order.get(id, 0)))


def _covered(connection: Database, conversation: str, names: Sequence[str]) -> list[str]:
    """What these summary items name, by their own rows and by links."""
    ids: list[str] = []
    for some in chunks(names):
        statement = "SELECT covers FROM summaries WHERE conversation = ? AND item IN (?*) ORDER BY seq"
        rows = connection.execute(any_of(statement, len(some)), (conversation, *some))
        ids += [id for row in rows for id in unpack_strings(row[0])]
        statement = "SELECT b FROM links WHERE conversation = ? AND a IN (?*) AND type = 'summarizes'"
        ids += [row[0] for row in connection.execute(any_of(statement, len(some)), (conversation, *some))]
    return ids


def _summaries_among(connection: Database, conversation: str, ids: Sequence[str]) -> list[str]:
    found: list[str] = []
    for some in chunks(ids):
        statement = any_of("SELECT DISTINCT item FROM summaries WHERE conversation = ? AND item IN (?*)", len(some))
        found += [row[0] for row in connection.execute(statement, (conversation, *some))]
    return found


Ranked = Callable[[Database, SearchQuery, str | None, str | None], Cursor]
"""The sequence numbers of messages that match, the best first."""


def ranked(connection: Database, query: SearchQuery, tenant: str | None, conversation: str | None) -> Cursor:
    return connection.execute(_HITS_SQL, (query.match, tenant, tenant, conversation, conversation))


def search(
    connection: Database, ranked: Ranked, text: str, tenant: str | None, conversation: str | None, limit: int
) -> list[tuple[StoredItem, float]]:
    query = parse_query(text)
    if not query.match or limit < 1:
        return []
    hits: list[StoredItem] = []
    found = ranked(connection, query, tenant, conversation)
    for (seq,) in found:
        row = connection.execute(_HIT_SQL, (seq,)).fetchone()
        stored = StoredItem(row[0], _item(row[1:]))
        if query.accepts(stored.row.text):
            hits.append(stored)
        if len(hits) == limit:
            break
    found.close()
    return [(stored, 1 - place / len(hits)) for place, stored in enumerate(hits)]


# -- rows to values ------------------------------------------------------------------------------
def _item(row: Sequence[Any]) -> ItemRow:
    *values, atoms, text = row
    fields = dict(zip(ITEM_FIELDS, values, strict=True))
    fields["is_pinned"] = bool(fields["is_pinned"])
    return ItemRow(**fields, atoms=unpack(atoms), text=unpack_text(text))


def _working(row: Sequence[Any]) -> StoredItem:
    seq, *shown, item, branch_id, origin, is_pinned, importance, is_summarized = row
    original = _item(shown)
    fresh = replace(
        original, id=item, branch=branch_id, origin=origin, is_pinned=bool(is_pinned), importance=importance
    )
    return StoredItem(seq, fresh, is_summarized=bool(is_summarized))


def _exchange(row: Sequence[Any]) -> tuple[ExchangeRow, OutcomeRow | None]:
    fields = dict(zip(EXCHANGE_FIELDS, row, strict=False))
    fields["is_stream"] = bool(fields["is_stream"])
    ended = dict(zip(OUTCOME_FIELDS, row[len(EXCHANGE_FIELDS) :], strict=False))
    if ended["exchange"] is None:
        return ExchangeRow(**fields), None
    ended["is_estimated"] = bool(ended["is_estimated"])
    return ExchangeRow(**fields), OutcomeRow(**ended, reply_items=unpack_strings(row[-1]))
