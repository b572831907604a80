"""Writes one batch into an open transaction: every insert idempotent, order of the tables fixed. Commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeVar

from proxy.core.records import (
    ArrivalRow,
    Batch,
    BodyRow,
    BranchRow,
    ExchangeRow,
    FoldRow,
    ItemRow,
    KeyRow,
    OutcomeRow,
    SummaryCallRow,
    SummaryRow,
    WindowRow,
)
from proxy.store.codec import pack, storable
from proxy.store.database import Database
from proxy.store.sealing import SEAL_COLUMNS, Sealer
from proxy.store.seals import (
    EXCHANGES,
    GAPS,
    MESSAGES,
    OUTCOMES,
    PATHS,
    PLANS,
    REDACTIONS,
    STRAY,
    SUMMARIES,
    SUMMARY_CALLS,
    WINDOWS,
    SealedTable,
    plain,
    to_columns,
)

T = TypeVar("T")
Value = str | bytes | int | float | None

_MARKS = 250

# Columns in the order of the tables' definitions, less what the store itself fills.
ITEM_FIELDS = (
    *("id", "conversation", "branch", "kind", "role", "body", "call_id", "source"),
    *("group", "is_pinned", "importance", "exchange", "created_at"),
)
EXCHANGE_FIELDS = tuple(ExchangeRow.__dataclass_fields__)
OUTCOME_FIELDS = tuple(name for name in OutcomeRow.__dataclass_fields__ if name != "reply_items")
BRANCH_FIELDS = tuple(BranchRow.__dataclass_fields__)
WINDOW_FIELDS = tuple(name for name in WindowRow.__dataclass_fields__ if name not in ("tail", "gaps"))
SUMMARY_FIELDS = tuple(name for name in SummaryRow.__dataclass_fields__ if name != "covers")
SUMMARY_CALL_FIELDS = tuple(SummaryCallRow.__dataclass_fields__)
FOLD_FIELDS = tuple(name for name in FoldRow.__dataclass_fields__ if name != "fresh")


def columns(names: Sequence[str], prefix: str = "") -> str:
    """Quoted column names: some fields (group, trigger) are SQL words."""
    return ", ".join(f'{prefix}"{name}"' for name in names)


def any_of(statement: str, count: int) -> str:
    """The statement with `(?*)` spelt out as that many marks."""
    return statement.replace("(?*)", f"({', '.join('?' * count)})")


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), _MARKS):
        yield values[start : start + _MARKS]


def _insert(table: str, names: Sequence[str], tail: str = "ON CONFLICT DO NOTHING") -> str:
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {table} ({columns(names)}) VALUES ({marks}) {tail}"  # noqa: S608 - our own names


_BODY = _insert("bodies", ("hash", "size", "data", "redacted"))
_MESSAGE = _insert("messages", (*MESSAGES.names, *SEAL_COLUMNS))
_FOLD = _insert("folds", (*FOLD_FIELDS, "id"), "ON CONFLICT DO NOTHING RETURNING seq")
_CLAIM = _insert(
    "claims",
    ("name", "owner", "at", "until"),
    "ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, at = excluded.at, until = excluded.until"
    " WHERE claims.until <= excluded.at OR claims.owner = excluded.owner",
)
_LAST_FOLD = "SELECT summary FROM folds WHERE conversation = ? AND branch = ? ORDER BY seq DESC LIMIT 1"
_LINK = _insert("links", ("conversation", "a", "b", "type"))
_MARK = _insert(
    "marks",
    ("conversation", "item", "name", "value"),
    "ON CONFLICT (conversation, item, name) DO UPDATE SET value = excluded.value WHERE marks.value <> excluded.value",
)
_NUMBER = _insert("branch_numbers", ("id",))
_KEY = (
    "INSERT INTO keys (tenant, kind, key, branch) SELECT ?, ?, ?, number FROM branch_numbers WHERE id = ?"
    " ON CONFLICT DO NOTHING"
)
_LEARNED = _insert(
    "learned",
    ("upstream", "model", "name", "value"),
    "ON CONFLICT (upstream, model, name) DO UPDATE SET value = excluded.value WHERE learned.value <> excluded.value",
)
# A key is never put back: the first end that was set for it stands, unless an earlier one comes.
_CLIENT_KEY = _insert(
    "client_keys",
    ("id", "team", "hash", "created_at", "revoked_at"),
    "ON CONFLICT (id) DO UPDATE SET revoked_at = excluded.revoked_at WHERE excluded.revoked_at <> ''"
    " AND (client_keys.revoked_at = '' OR excluded.revoked_at < client_keys.revoked_at)",
)
# `touched` orders branches by their last write: a number of the store, as clocks differ and jump.
_BRANCH = (
    f"INSERT INTO branches ({columns(BRANCH_FIELDS)}, touched) VALUES ({', '.join('?' * len(BRANCH_FIELDS))},"  # noqa: S608
    " (SELECT coalesce(max(touched), 0) + 1 FROM branches)) ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f'"{name}" = excluded."{name}"' for name in (*BRANCH_FIELDS, "touched") if name != "id")
    + " WHERE excluded.version > branches.version"
)
# A view that holds an item, open or summarized, does not get it again; a fold's fresh rows it does.
_ARRIVED = (
    "INSERT INTO working (branch, conversation, item, origin, fold, is_pinned, importance)"
    " SELECT ?1, ?2, ?3, ?4, 0, ?5, ?6 WHERE NOT EXISTS (SELECT 1 FROM working WHERE branch = ?1 AND item = ?3)"
)
_FRESH = _insert("working", ("branch", "conversation", "item", "is_pinned", "importance", "origin", "fold"), tail="")
_HAS_ROWS = "SELECT 1 FROM working WHERE branch = ? LIMIT 1"
_COUNT = (
    "INSERT INTO conversations (id, tenant, items) VALUES (?, '', ?)"
    " ON CONFLICT (id) DO UPDATE SET items = conversations.items + excluded.items"
)
_KNOWN = "SELECT id FROM messages WHERE conversation = ? AND id IN (?*)"
_KNOWN_BODIES = "SELECT hash, redacted FROM bodies WHERE hash IN (?*)"


def write_batches(connection: Database, batches: Iterable[Batch], secret: bytes = b"") -> None:
    """Insert everything that is new of several batches, in order. Each chain that they add to is signed once."""
    sealer = Sealer(connection, secret)
    for batch in batches:
        _write(connection, sealer, batch)
    sealer.finish()


def write_batch(connection: Database, batch: Batch, secret: bytes = b"") -> None:
    """The same for one."""
    write_batches(connection, (batch,), secret)


def _write(connection: Database, sealer: Sealer, batch: Batch) -> None:
    """Exchanges and branches first: they say whose a conversation is."""
    sealer.knows(map(_exchange_chain, batch.exchanges), map(_branch_chain, batch.branches))
    _write_redactions(sealer, batch, write_bodies(connection, batch.bodies))
    for exchange in batch.exchanges:
        _EXCHANGE.write(sealer, exchange, sealer.chain_of_exchange(exchange.id))
    _many(connection, _BRANCH, batch.branches, _branch_values)
    for arrival in batch.arrivals:
        _write_arrivals(connection, arrival)
    _write_items(connection, sealer, batch.items)
    for path in batch.paths:
        _PATH.write(sealer, path, sealer.chain_of_branch(path.branch))
    for plan in batch.plans:
        _PLAN.write(sealer, plan, sealer.chain_of_branch(plan.branch))
    for window in batch.windows:
        _WINDOW.write(sealer, window, sealer.chain_of_exchange(window.exchange))
    for summary in batch.summaries:
        _SUMMARY.write(sealer, summary, summary.conversation or STRAY)
    for call in batch.summary_calls:
        _SUMMARY_CALL.write(sealer, call, call.conversation or STRAY)
    _many(connection, _CLAIM, batch.claims, _claim_values)
    for fold in batch.folds:
        _write_fold(connection, sealer, fold)
    _write_items(connection, sealer, batch.replies)
    _many(connection, _LINK, batch.links, _link_values)
    _many(connection, _MARK, batch.marks, _mark_values)
    _many(connection, _NUMBER, tuple({row.branch: row for row in batch.keys}.values()), _number_values)
    _many(connection, _KEY, batch.keys, _key_values)
    _many(connection, _LEARNED, batch.learned, _learned_values)
    _many(connection, _CLIENT_KEY, batch.client_keys, _client_key_values)
    for outcome in batch.outcomes:
        _OUTCOME.write(sealer, outcome, sealer.chain_of_exchange(outcome.exchange))


def write_gap(
    connection: Database, started_at: str, ended_at: str, batches: int, reason: str, secret: bytes = b""
) -> None:
    """Record that batches were lost, and why."""
    sealer = Sealer(connection, secret)
    sealer.insert(_GAP, GAPS, STRAY, (started_at, ended_at, storable(reason), batches))
    sealer.finish()


def cleaned(batch: Batch) -> Batch:
    """The batch with texts that SQLite takes: for the rare one in which a lone surrogate was found."""
    return replace(batch, **{name: _cleaned(getattr(batch, name)) for name in Batch.__dataclass_fields__})


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, tuple):
        return tuple(_cleaned(each) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.name != "text"]  # kept whole, as packed bytes
        return replace(value, **{name: _cleaned(getattr(value, name)) for name in names})
    return value


def _many(connection: Database, statement: str, rows: Sequence[T], values: Callable[[T], Sequence[Value]]) -> None:
    if rows:
        connection.executemany(statement, map(values, rows))


def write_bodies(connection: Database, bodies: Sequence[BodyRow]) -> dict[bytes, bytes]:
    """Bodies that are new. Most are known (frames, the items of a fork), and packing costs more than asking.

    Returns what the redacted ones hash to since, as it is kept.
    """
    new: dict[bytes, BodyRow] = {}
    marks: dict[bytes, bytes] = {}
    for body in bodies:
        new.setdefault(body.hash, body)
    for hashes in chunks(list(new)):
        for known, mark in connection.execute(any_of(_KNOWN_BODIES, len(hashes)), hashes).fetchall():
            del new[known]
            if mark:
                marks[known] = mark
    _many(connection, _BODY, tuple(new.values()), _body_values)
    marks.update((body.hash, body.redacted) for body in new.values() if body.redacted)
    return marks


def _write_redactions(sealer: Sealer, batch: Batch, marks: dict[bytes, bytes]) -> None:
    """Seal the marks in every conversation that the batch speaks of: each of them verifies by itself."""
    if not marks:
        return
    told = [row.conversation for row in batch.exchanges] + [row.conversation for row in batch.branches]
    told += [row.conversation for row in (*batch.items, *batch.replies)] + [row.conversation for row in batch.folds]
    for conversation in dict.fromkeys(told):
        for hash, mark in marks.items():
            sealer.insert(_REDACTION, REDACTIONS, conversation or STRAY, (conversation, hash, mark))


def _write_items(connection: Database, sealer: Sealer, items: Sequence[ItemRow]) -> None:
    """Both stores' rows."""
    _write_messages(connection, sealer, [_original(connection, item) for item in items])
    _many(connection, _ARRIVED, items, _arrived_values)


def _write_arrivals(connection: Database, row: ArrivalRow) -> None:
    """What a branch begins with. Of one that has rows already, each item is looked up."""
    values = ((row.branch, row.conversation, item, item in row.pinned, 0.0, "", 0) for item in row.items)
    if connection.execute(_HAS_ROWS, (row.branch,)).fetchone() is None:
        connection.executemany(_FRESH, values)
    else:
        connection.executemany(_ARRIVED, ((*value[:3], "", *value[3:5]) for value in values))


def _write_messages(connection: Database, sealer: Sealer, items: Sequence[ItemRow]) -> None:
    """The display store's rows. A fork submits a whole path, so what is known costs one look-up, not an insert."""
    groups: dict[str, dict[str, ItemRow]] = {}
    for item in items:
        groups.setdefault(item.conversation, {}).setdefault(item.id, item)
    for conversation, group in groups.items():
        for ids in chunks(list(group)):
            for (known,) in connection.execute(any_of(_KNOWN, len(ids)), (conversation, *ids)).fetchall():
                del group[known]
        if group:
            rows = [plain(MESSAGES, _item_fields(item)) for item in group.values()]
            marks = sealer.seals(conversation or STRAY, MESSAGES.name, rows)
            columns = ((*to_columns(MESSAGES, row), *mark) for row, mark in zip(rows, marks, strict=True))
            connection.executemany(_MESSAGE, columns)
            connection.execute(_COUNT, (conversation, len(rows)))


def _write_fold(connection: Database, sealer: Sealer, fold: FoldRow) -> None:
    """Flag what is open and insert the compacted view. Not for one that is known, nor one of an older state."""
    if fold.follows is not None:
        last = connection.execute(_LAST_FOLD, (fold.conversation, fold.branch)).fetchone()
        if (last[0] if last else "") != fold.follows:
            return
    numbers = connection.execute(_FOLD, (*_fold_values(fold), _fold_id(fold))).fetchall()
    if not numbers:
        return
    number = numbers[0][0]
    connection.execute("UPDATE working SET is_summarized = 1 WHERE branch = ? AND is_summarized = 0", (fold.branch,))
    # A re-inserted row shows its original, which is there already; should a gap have eaten it, this brings it back.
    originals = [_original(connection, item) for item in fold.fresh]
    _write_messages(connection, sealer, originals)
    for item, original in zip(fold.fresh, originals, strict=True):
        origin = original.id if item.origin else ""
        connection.execute(_FRESH, (*_fresh_fields(item), origin, number))


def _original(connection: Database, item: ItemRow) -> ItemRow:
    """The display row that a fresh row stands for: of a re-insertion of a re-insertion, the very first."""
    if not item.origin:
        return item
    row = connection.execute(
        "SELECT origin FROM working WHERE branch = ? AND item = ? AND origin NOT IN ('', item) LIMIT 1",
        (item.branch, item.origin),
    ).fetchone()
    return replace(item, id=row[0] if row else item.origin)


def _getter(names: Sequence[str]) -> Callable[[object], tuple[Value, ...]]:
    return attrgetter(*names)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """How rows of a display table are written, one statement each."""

    table: SealedTable
    statement: str
    fields: Callable[[object], tuple[Value, ...]]

    def write(self, sealer: Sealer, row: object, chain: str) -> None:
        sealer.insert(self.statement, self.table, chain, self.fields(row))


def _sealed(table: SealedTable) -> _Sealed:
    return _Sealed(table, _insert(table.name, (*table.names, *SEAL_COLUMNS)), _getter(table.names))


_EXCHANGE, _OUTCOME, _PATH = _sealed(EXCHANGES), _sealed(OUTCOMES), _sealed(PATHS)
_PLAN, _WINDOW, _SUMMARY = _sealed(PLANS), _sealed(WINDOWS), _sealed(SUMMARIES)
_SUMMARY_CALL = _sealed(SUMMARY_CALLS)
_REDACTION = _insert(REDACTIONS.name, (*REDACTIONS.names, *SEAL_COLUMNS))
_GAP = _insert(GAPS.name, (*GAPS.names, *SEAL_COLUMNS))
_exchange_chain = attrgetter("id", "conversation", "tenant")
_branch_chain = attrgetter("id", "conversation")
_item_fields = _getter(MESSAGES.names)
_fresh_fields = _getter(("branch", "conversation", "id", "is_pinned", "importance"))
_arrived_values = _getter(("branch", "conversation", "id", "origin", "is_pinned", "importance"))
_branch_values = _getter(BRANCH_FIELDS)
_fold_values = _getter(FOLD_FIELDS)
_claim_values = _getter(("name", "owner", "at", "until"))
_link_values = _getter(("conversation", "a", "b", "type"))
_mark_values = _getter(("conversation", "item", "name", "value"))
_key_values = _getter(("tenant", "kind", "key", "branch"))
_learned_values = _getter(("upstream", "model", "name", "value"))
_client_key_values = _getter(("id", "team", "hash", "created_at", "revoked_at"))


def _body_values(row: BodyRow) -> tuple[Value, ...]:
    return (row.hash, len(row.data), pack(row.data), row.redacted)


def _number_values(row: KeyRow) -> tuple[Value, ...]:
    return (row.branch,)


def _fold_id(fold: FoldRow) -> bytes:
    """What makes a fold itself, so that submitting it again changes nothing."""
    told = repr((_fold_values(fold), [(item.id, item.origin) for item in fold.fresh]))
    return blake2b(told.encode(), digest_size=16).digest()
