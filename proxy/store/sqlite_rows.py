"""Writes one batch into an open transaction: every insert idempotent, order of the tables fixed. Commits nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from operator import attrgetter
from typing import TypeVar

from proxy.core.records import (
    Batch,
    BodyRow,
    BranchRow,
    ExchangeRow,
    FoldRow,
    ItemRow,
    KeyRow,
    LearnedRow,
    LinkRow,
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
_WORKING = _insert("working", ("branch", "conversation", "item", "origin", "fold", "is_pinned", "importance"), tail="")
_KNOWN_MESSAGES = "SELECT id FROM messages WHERE conversation = ? AND id IN (?*)"
_KNOWN_IN_VIEW = "SELECT item FROM working WHERE branch = ? AND item IN (?*)"


def write_batch(connection: sqlite3.Connection, batch: Batch) -> None:
    """Insert everything that is new. Exchanges and branches first: they say whose a conversation is."""
    many = connection.executemany
    many(_BODY, map(_body_values, batch.bodies))
    many(_EXCHANGE, map(_exchange_values, batch.exchanges))
    many(_BRANCH, map(_branch_values, batch.branches))
    _write_items(connection, batch.items)
    many(_PATH, map(_path_values, batch.paths))
    many(_PLAN, map(_plan_values, batch.plans))
    many(_WINDOW, map(_window_values, batch.windows))
    many(_SUMMARY, map(_summary_values, batch.summaries))
    for fold in batch.folds:
        _write_fold(connection, fold)
    many(_LINK, map(_link_values, batch.links))
    many(_NUMBER, ((storable(branch),) for branch in dict.fromkeys(row.branch for row in batch.keys)))
    many(_KEY, map(_key_values, batch.keys))
    many(_LEARNED, map(_learned_values, batch.learned))
    many(_OUTCOME, map(_outcome_values, batch.outcomes))


def _write_items(connection: sqlite3.Connection, items: Sequence[ItemRow]) -> None:
    if not items:
        return
    for conversation, group in _grouped(items, "conversation"):
        _write_messages(connection, conversation, group)
    for branch, group in _grouped(items, "branch"):
        known = _known(connection, _KNOWN_IN_VIEW, branch, group)
        for item in group:
            if item.id not in known:
                known.add(item.id)
                connection.execute(_WORKING, _working_values(item, fold=0))


def _write_messages(connection: sqlite3.Connection, conversation: str, items: Sequence[ItemRow]) -> None:
    """The display store's rows. A fork submits a whole path, so what is known costs one look-up, not an insert."""
    known = _known(connection, _KNOWN_MESSAGES, conversation, items)
    for item in items:
        if item.id in known:
            continue
        known.add(item.id)
        cursor = connection.execute(_MESSAGE, _message_values(item))
        if item.text and cursor.rowcount == 1:
            connection.execute(
                "INSERT INTO items_fts (rowid, text) VALUES (?, ?)", (cursor.lastrowid, storable(item.text))
            )


def _write_fold(connection: sqlite3.Connection, fold: FoldRow) -> None:
    """Flag what is open and insert the compacted view. A fold that is known has done that already."""
    cursor = connection.execute(_FOLD, (*_values(fold, FOLD_FIELDS), _fold_id(fold)))
    if cursor.rowcount != 1:
        return
    number = cursor.lastrowid or 0
    connection.execute("UPDATE working SET is_summarized = 1 WHERE branch = ? AND is_summarized = 0", (fold.branch,))
    # A re-inserted row shows its original, which is there already; should a gap have eaten it, this brings it back.
    originals = [_original(connection, item) for item in fold.fresh]
    for conversation, group in _grouped(originals, "conversation"):
        _write_messages(connection, conversation, group)
    for item, original in zip(fold.fresh, originals, strict=True):
        origin = original.id if item.origin else ""
        connection.execute(_WORKING, _working_values(item, fold=number, origin=origin))


def _original(connection: sqlite3.Connection, item: ItemRow) -> ItemRow:
    """The display row that a fresh row stands for: of a re-insertion of a re-insertion, the very first."""
    if not item.origin:
        return item
    row = connection.execute(
        "SELECT origin FROM working WHERE branch = ? AND item = ? AND origin NOT IN ('', item) LIMIT 1",
        (item.branch, item.origin),
    ).fetchone()
    return replace(item, id=row[0] if row else item.origin)


def _known(connection: sqlite3.Connection, statement: str, owner: str, items: Sequence[ItemRow]) -> set[str]:
    known: set[str] = set()
    for ids in chunks([item.id for item in items]):
        known.update(row[0] for row in connection.execute(any_of(statement, len(ids)), (owner, *ids)))
    return known


def _grouped(items: Iterable[ItemRow], name: str) -> Iterator[tuple[str, list[ItemRow]]]:
    groups: dict[str, list[ItemRow]] = {}
    owner = attrgetter(name)
    for item in items:
        groups.setdefault(owner(item), []).append(item)
    yield from groups.items()


def _value(value: Value) -> Value:
    return storable(value) if isinstance(value, str) else value


def _values(row: object, names: Sequence[str]) -> tuple[Value, ...]:
    return tuple([_value(getattr(row, name)) for name in names])


def _body_values(row: BodyRow) -> tuple[Value, ...]:
    return (row.hash, len(row.data), pack(row.data))


def _message_values(row: ItemRow) -> tuple[Value, ...]:
    return (*_values(row, ITEM_FIELDS), pack(row.atoms), pack_text(row.text))


def _working_values(row: ItemRow, fold: int, origin: str = "") -> tuple[Value, ...]:
    named = _values(row, ("branch", "conversation", "id"))
    return (*named, storable(origin or row.origin), fold, row.is_pinned, row.importance)


def _exchange_values(row: ExchangeRow) -> tuple[Value, ...]:
    return _values(row, EXCHANGE_FIELDS)


def _outcome_values(row: OutcomeRow) -> tuple[Value, ...]:
    return (*_values(row, OUTCOME_FIELDS), pack_strings(row.reply_items))


def _branch_values(row: BranchRow) -> tuple[Value, ...]:
    return _values(row, BRANCH_FIELDS)


def _path_values(row: PathRow) -> tuple[Value, ...]:
    return (*_values(row, ("id", "branch", "base", "keep")), pack_strings(row.tail))


def _plan_values(row: PlanRow) -> tuple[Value, ...]:
    return (storable(row.id), storable(row.branch), pack(row.data))


def _window_values(row: WindowRow) -> tuple[Value, ...]:
    return (*_values(row, WINDOW_FIELDS), pack_entries(row.tail), pack_blobs(row.gaps))


def _summary_values(row: SummaryRow) -> tuple[Value, ...]:
    return (*_values(row, SUMMARY_FIELDS), pack_strings(row.covers))


def _link_values(row: LinkRow) -> tuple[Value, ...]:
    return _values(row, ("conversation", "a", "b", "type"))


def _key_values(row: KeyRow) -> tuple[Value, ...]:
    return _values(row, ("tenant", "kind", "key", "branch"))


def _learned_values(row: LearnedRow) -> tuple[Value, ...]:
    return _values(row, ("upstream", "model", "name", "value"))


def _fold_id(fold: FoldRow) -> bytes:
    """What makes a fold itself, so that submitting it again changes nothing."""
    told = repr((_values(fold, FOLD_FIELDS), [(item.id, item.origin) for item in fold.fresh]))
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()
