"""What a display row's seal is made of: its values in a fixed order, and the seal before it. No SQL, no I/O.

Every conversation has one chain over all its display rows, whatever table they are in:
`seal = blake2b(seal before + msgpack([table, place, *values]))`, places counted from 1. The values are
the plain ones, not their packed bytes, so a seal survives export, import and another backend.
Whoever can write the file can also compute a whole chain anew: see proxy.store.signatures.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from proxy.core.records import Entry
from proxy.store.codec import (
    pack,
    pack_blobs,
    pack_entries,
    pack_strings,
    unpack,
    unpack_blobs,
    unpack_entries,
    unpack_strings,
)

SEAL_BYTES = 32
FIRST = b""
"""What stands for the seal before a chain's first row."""
STRAY = "~"
"""The chain of rows that belong to no known conversation; followed by a tenant, of its unplaced exchanges."""

Kind = Literal["text", "int", "real", "blob", "packed", "utf8", "strings", "blobs", "entries"]
Value = Any

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class SealedTable:
    """A display table and the columns that its seals cover, in order; `key` names a row for people.

    The order and the set are fixed for ever: a later column must not join, or old seals would not hold.
    """

    name: str
    key: str
    columns: tuple[tuple[str, Kind], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


def _table(name: str, key: str, **kinds: str) -> SealedTable:
    columns = [(column, kind) for kind, names in kinds.items() for column in names.split()]
    return SealedTable(name, key, tuple(columns))  # type: ignore[arg-type]


MESSAGES = SealedTable(
    "messages",
    "id",
    (
        *((name, "text") for name in ("id", "conversation", "branch", "kind", "role")),
        ("body", "blob"),
        *((name, "text") for name in ("call_id", "source", "group")),
        ("is_pinned", "int"),
        ("importance", "real"),
        ("exchange", "text"),
        ("created_at", "text"),
        ("atoms", "packed"),
        ("text", "utf8"),
    ),
)
EXCHANGES = _table(
    "exchanges",
    "id",
    text="id tenant conversation branch verdict method path model wire created_at note",
    int="is_stream request_bytes items",
)
OUTCOMES = _table(
    "outcomes",
    "exchange",
    text="exchange outcome finish error ended_at",
    int="status attempts input cached written output reasoning is_estimated breaks",
    real="cost cost_direct first_byte_ms duration_ms",
    strings="reply_items",
)
PATHS = _table("paths", "id", text="id branch base", int="keep", strings="tail")
PLANS = _table("plans", "id", text="id branch", packed="data")
WINDOWS = _table(
    "windows",
    "id",
    text="id exchange branch base out_hash policy reason created_at",
    int="attempt keep out_bytes tokens_in tokens_out first_change",
    blob="prefix suffix gap",
    entries="tail",
    blobs="gaps",
)
SUMMARIES = _table(
    "summaries",
    "key",
    text="key conversation item summarizer created_at",
    blob="body",
    int="tokens",
    real="cost",
    strings="covers",
)
SUMMARY_CALLS = _table(
    "summary_calls",
    "id",
    text="id conversation branch key summarizer model outcome reason created_at",
    int="input cached output",
    real="cost duration_ms",
)
REDACTIONS = SealedTable("redactions", "hash", (("conversation", "text"), ("hash", "blob"), ("mark", "blob")))
GAPS = _table("gaps", "started_at", text="started_at ended_at reason", int="batches")
TABLES = (EXCHANGES, MESSAGES, PATHS, PLANS, WINDOWS, SUMMARIES, SUMMARY_CALLS, OUTCOMES, GAPS, REDACTIONS)
BY_NAME = {table.name: table for table in TABLES}


def seal(before: bytes, table: str, place: int, values: Sequence[Value]) -> bytes:
    """The seal of one row. `values` are plain ones, in the table's order."""
    return blake2b(before + _encode((table, place, *values)), digest_size=SEAL_BYTES).digest()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _plain_entries(entries: Sequence[Entry]) -> tuple[tuple[Value, ...], ...]:
    return tuple((e.item, int(e.form), e.body, e.tokens, e.reason, float(e.score)) for e in entries)


def _real(value: float | None) -> float | None:
    return None if value is None else float(value)


# From a record's field to the plain value: what the column gives back, so that `True` and 1 are the same.
_FROM_RECORD: dict[Kind, Callable[[Any], Value]] = {
    "int": int,
    "real": _real,
    "utf8": _utf8,
    "strings": tuple,
    "blobs": tuple,
    "entries": _plain_entries,
}
_TO_COLUMN: dict[Kind, Callable[[Any], Value]] = {
    "packed": pack,
    "utf8": pack,
    "strings": pack_strings,
    "blobs": pack_blobs,
    "entries": pack_entries,
}
_FROM_COLUMN: dict[Kind, Callable[[Any], Value]] = {
    "packed": unpack,
    "utf8": unpack,
    "strings": unpack_strings,
    "blobs": unpack_blobs,
    "entries": lambda packed: _plain_entries(unpack_entries(packed)),
}


def _steps(table: SealedTable, by_kind: dict[Kind, Callable[[Any], Value]]) -> list[tuple[int, Callable[[Any], Value]]]:
    return [(place, by_kind[kind]) for place, (_, kind) in enumerate(table.columns) if kind in by_kind]


_RECORD_STEPS = {table.name: _steps(table, _FROM_RECORD) for table in TABLES}
_STORE_STEPS = {table.name: _steps(table, _TO_COLUMN) for table in TABLES}
_LOAD_STEPS = {table.name: _steps(table, _FROM_COLUMN) for table in TABLES}


def _mapped(values: Sequence[Value], steps: Sequence[tuple[int, Callable[[Any], Value]]]) -> list[Value]:
    changed = list(values)
    for place, change in steps:
        changed[place] = change(changed[place])
    return changed


def plain(table: SealedTable, fields: Sequence[Value]) -> list[Value]:
    """Plain values of a record's fields, given in the table's order."""
    return _mapped(fields, _RECORD_STEPS[table.name])


def to_columns(table: SealedTable, values: Sequence[Value]) -> list[Value]:
    """Plain values as the columns hold them."""
    return _mapped(values, _STORE_STEPS[table.name])


def from_columns(table: SealedTable, columns: Sequence[Value]) -> list[Value]:
    """The plain values behind the columns. Raises ValueError for what cannot have been written."""
    return _mapped(columns, _LOAD_STEPS[table.name])


# -- plain values as JSON -----------------------------------------------------------------------


def bytes_to_json(data: bytes) -> Value:
    """Text where the bytes are UTF-8, else base64 in an object: both come back byte for byte."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def bytes_from_json(value: Value) -> bytes:
    """The bytes. Raises ValueError."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict) or set(value) != {"base64"}:
        raise ValueError("neither text nor base64")
    return b64decode(value["base64"], validate=True)


def _entries_to_json(entries: Sequence[Sequence[Value]]) -> Value:
    names = ("item", "form", "body", "tokens", "reason", "score")
    return [dict(zip(names, (i, f, b.hex(), t, r, s), strict=True)) for i, f, b, t, r, s in entries]


def _entries_from_json(entries: Sequence[dict[str, Value]]) -> Value:
    return tuple(
        (
            _text(e["item"]),
            _whole(e["form"]),
            bytes.fromhex(e["body"]),
            _whole(e["tokens"]),
            _text(e["reason"]),
            float(_number(e["score"])),
        )
        for e in entries
    )


_TO_JSON: dict[Kind, Callable[[Any], Value]] = {
    "blob": bytes.hex,
    "packed": lambda data: b64encode(data).decode(),
    "utf8": bytes_to_json,
    "blobs": lambda blobs: [blob.hex() for blob in blobs],
    "entries": _entries_to_json,
}


def _as(*kinds: type) -> Callable[[Any], Any]:
    """Takes a value of these very types, and no other: anybody may have written the JSON."""

    def checked(value: Any) -> Any:
        if type(value) not in kinds:
            raise ValueError(f"{value!r:.40} is not {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return checked


_text, _whole, _number = _as(str), _as(int), _as(float, int, type(None))
_FROM_JSON: dict[Kind, Callable[[Any], Value]] = {
    "text": _text,
    "int": _whole,
    "real": lambda value: _real(_number(value)),
    "blob": bytes.fromhex,
    "packed": lambda text: b64decode(text, validate=True),
    "utf8": bytes_from_json,
    "strings": lambda texts: tuple(map(_text, texts)),
    "blobs": lambda blobs: tuple(bytes.fromhex(blob) for blob in blobs),
    "entries": _entries_from_json,
}
_WRITE_STEPS = {table.name: _steps(table, _TO_JSON) for table in TABLES}
_READ_STEPS = {table.name: _steps(table, _FROM_JSON) for table in TABLES}


def to_json(table: SealedTable, values: Sequence[Value]) -> dict[str, Value]:
    """Plain values as an object that JSON can carry."""
    return dict(zip(table.names, _mapped(values, _WRITE_STEPS[table.name]), strict=True))


def from_json(table: SealedTable, row: dict[str, Value]) -> list[Value]:
    """The plain values of such an object. Raises ValueError, KeyError or TypeError for anything else."""
    return _mapped([row[name] for name in table.names], _READ_STEPS[table.name])
