"""Takes what looks like a secret out of rows before they are kept, when the operator asks for it. Pure.

A body keeps the hash of its original as its name, so that all that speaks of it still does, and says by a hash
of its own that it was redacted. A window with such a body cannot be rendered to the bytes that went out.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

import msgspec
import orjson

from proxy.core.records import Batch, BodyRow, FoldRow, ItemRow, PlanRow
from proxy.core.redaction import redact

MARK = "[redacted at capture]"
_MIN_CHARS = 8


def redacted(batch: Batch) -> Batch:
    """The batch with every secret-shaped text replaced by a mark."""
    return replace(
        batch,
        bodies=tuple(map(_body, batch.bodies)),
        items=tuple(map(_item, batch.items)),
        plans=tuple(map(_plan, batch.plans)),
        folds=tuple(map(_fold, batch.folds)),
    )


def _body(row: BodyRow) -> BodyRow:
    data = _bytes(row.data)
    if data == row.data:
        return row
    return replace(row, data=data, redacted=blake2b(data, digest_size=16).digest())


def _item(row: ItemRow) -> ItemRow:
    return replace(row, text=_text(row.text), source=_text(row.source), atoms=_packed(row.atoms))


def _fold(row: FoldRow) -> FoldRow:
    return replace(row, fresh=tuple(map(_item, row.fresh)))


def _plan(row: PlanRow) -> PlanRow:
    return replace(row, data=_packed(row.data))


def _packed(data: bytes) -> bytes:
    """MessagePack with texts in it: of digests and excerpts in a plan, of short items in their canonical form."""
    try:
        value = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data
    changed = _value(value)
    return data if changed == value else msgspec.msgpack.encode(changed)


def _bytes(data: bytes) -> bytes:
    """JSON text by text, so that it stays JSON; a part of it, such as the frame around a list, as plain text."""
    try:
        value = orjson.loads(data)
    except ValueError:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        return _text(text).encode()
    changed = _value(value)
    return data if changed == value else orjson.dumps(changed)


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, dict):
        return {key: _value(each) for key, each in value.items()}
    return value


def _text(text: str) -> str:
    return redact(text, mask=MARK) if len(text) >= _MIN_CHARS else text
