"""Writes one batch into an open transaction: every insert idempotent, order of the tables fixed. Commits nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeVar

from proxy.core.records import (
    Batch,
    BodyRow,
    BranchRow,
    ExchangeRow,
    FoldRow,
    ItemRow,
    KeyRow,
    OutcomeRow,
    PathRow,
    PlanRow,
    SummaryRow,
    WindowRow,
)
from proxy.store.codec import pack, pack_blobs, pack_entries, pack_strings, pack_text, storable

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


_BODY = _insert("bodies", ("hash", "size", "data"))
_MESSAGE = _insert("messages", (*ITEM_FIELDS, "atoms", "text"))
_EXCHANGE = _insert("exchanges", EXCHANGE_FIELDS)
_OUTCOME = _insert("outcomes", (*OUTCOME_FIELDS, "reply_items"))
_PATH = _insert("paths", ("id", "branch", "base", "keep", "tail"))
_WINDOW = _insert("windows", (*WINDOW_FIELDS, "tail", "gaps"))
_PLAN = _insert("plans", ("id", "branch", "data"))
_SUMMARY = _insert("summaries", (*SUMMARY_FIELDS, "covers"))
_FOLD = _insert("folds", (*FOLD_FIELDS, "id"))
_LINK = _insert("links", ("conversation", "a", "b", "type"))
_NUMBER = _insert("branch_numbers", ("id",))
_KEY = (
    "INSERT INTO keys (tenant, kind, key, branch) SELECT ?, ?, ?, number FROM branch_numbers WHERE id = ?"
    " ON CONFLICT DO NOTHING"
)
_LEARNED = _insert(
    "learned",
    ("upstream", "model", "name", "value"),
    "ON CONFLICT (upstream, model, name) DO UPDATE SET value = excluded.value WHERE value <> excluded.value",
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
_COUNT = (
    "INSERT INTO conversations (id, tenant, items) VALUES (?, '', ?)"
    " ON CONFLICT (id) DO UPDATE SET items = items + excluded.items"
)
_KNOWN = "SELECT id FROM messages WHERE conversation = ? AND id IN (?*)"


def write_batch(connection: sqlite3.Connection, batch: Batch) -> None:
    """Insert everything that is new. Exchanges and branches first: they say whose a conversation is."""
    _many(connection, _BODY, batch.bodies, _body_values)
    _many(connection, _EXCHANGE, batch.exchanges, _exchange_values)
    _many(connection, _BRANCH, batch.branches, _branch_values)
    _write_messages(connection, [_original(connection, item) for item in batch.items])
    _many(connection, _ARRIVED, batch.items, _arrived_values)
    _many(connection, _PATH, batch.paths, _path_values)
    _many(connection, _PLAN, batch.plans, _plan_values)
    _many(connection, _WINDOW, batch.windows, _window_values)
    _many(connection, _SUMMARY, batch.summaries, _summary_values)
    for fold in batch.folds:
        _write_fold(connection, fold)
    _many(connection, _LINK, batch.links, _link_values)
    _many(connection, _NUMBER, tuple({row.branch: row for row in batch.keys}.values()), _number_values)
    _many(connection, _KEY, batch.keys, _key_values)
    _many(connection, _LEARNED, batch.learned, _learned_values)
    _many(connection, _OUTCOME, batch.outcomes, _outcome_values)


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


def _many(
    connection: sqlite3.Connection, statement: str, rows: Sequence[T], values: Callable[[T], Sequence[Value]]
) -> None:
    if rows:
        connection.executemany(statement, map(values, rows))


def _write_messages(connection: sqlite3.Connection, items: Sequence[ItemRow]) -> None:
    """The display store's rows. A fork submits a whole path, so what is known costs one look-up, not an insert."""
    groups: dict[str, dict[str, ItemRow]] = {}
    for item in items:
        groups.setdefault(item.conversation, {}).setdefault(item.id, item)
    for conversation, group in groups.items():
        for ids in chunks(list(group)):
            for (known,) in connection.execute(any_of(_KNOWN, len(ids)), (conversation, *ids)).fetchall():
                del group[known]
        if group:
            cursor = connection.executemany(_MESSAGE, map(_message_values, group.values()))
            connection.execute(_COUNT, (conversation, cursor.rowcount))


def _write_fold(connection: sqlite3.Connection, fold: FoldRow) -> None:
    """Flag what is open and insert the compacted view. A fold that is known has done that already."""
    cursor = connection.execute(_FOLD, (*_fold_values(fold), _fold_id(fold)))
    if cursor.rowcount != 1:
        return
    number = cursor.lastrowid or 0
    connection.execute("UPDATE working SET is_summarized = 1 WHERE branch = ? AND is_summarized = 0", (fold.branch,))
    # A re-inserted row shows its original, which is there already; should a gap have eaten it, this brings it back.
    originals = [_original(connection, item) for item in fold.fresh]
    _write_messages(connection, originals)
    for item, original in zip(fold.fresh, originals, strict=True):
        origin = original.id if item.origin else ""
        connection.execute(_FRESH, (*_fresh_fields(item), origin, number))


def _original(connection: sqlite3.Connection, item: ItemRow) -> ItemRow:
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


_item_fields = _getter(ITEM_FIELDS)
_outcome_fields = _getter(OUTCOME_FIELDS)
_path_fields = _getter(("id", "branch", "base", "keep"))
_window_fields = _getter(WINDOW_FIELDS)
_summary_fields = _getter(SUMMARY_FIELDS)
_fresh_fields = _getter(("branch", "conversation", "id", "is_pinned", "importance"))
_arrived_values = _getter(("branch", "conversation", "id", "origin", "is_pinned", "importance"))
_exchange_values = _getter(EXCHANGE_FIELDS)
_branch_values = _getter(BRANCH_FIELDS)
_fold_values = _getter(FOLD_FIELDS)
_link_values = _getter(("conversation", "a", "b", "type"))
_key_values = _getter(("tenant", "kind", "key", "branch"))
_learned_values = _getter(("upstream", "model", "name", "value"))


def _body_values(row: BodyRow) -> tuple[Value, ...]:
    return (row.hash, len(row.data), pack(row.data))


def _message_values(row: ItemRow) -> tuple[Value, ...]:
    return (*_item_fields(row), pack(row.atoms), pack_text(row.text))


def _outcome_values(row: OutcomeRow) -> tuple[Value, ...]:
    return (*_outcome_fields(row), pack_strings(row.reply_items))


def _path_values(row: PathRow) -> tuple[Value, ...]:
    return (*_path_fields(row), pack_strings(row.tail))


def _plan_values(row: PlanRow) -> tuple[Value, ...]:
    return (row.id, row.branch, pack(row.data))


def _window_values(row: WindowRow) -> tuple[Value, ...]:
    return (*_window_fields(row), pack_entries(row.tail), pack_blobs(row.gaps))


def _summary_values(row: SummaryRow) -> tuple[Value, ...]:
    return (*_summary_fields(row), pack_strings(row.covers))


def _number_values(row: KeyRow) -> tuple[Value, ...]:
    return (row.branch,)


def _fold_id(fold: FoldRow) -> bytes:
    """What makes a fold itself, so that submitting it again changes nothing."""
    told = repr((_fold_values(fold), [(item.id, item.origin) for item in fold.fresh]))
    return blake2b(told.encode(), digest_size=16).digest()
