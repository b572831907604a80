"""Conversations as flat rows: one an item, one an exchange, and one each time an item went out in a new form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

from policies.model import Form
from proxy.core.filters import Filters
from proxy.store import archive_joins
from proxy.store.archive import Archive, ChainLine, SealedRow
from proxy.store.seals import EXCHANGES, MESSAGES, WINDOWS, SealedTable
from proxy.wire.readable import readable_text

Kind = Literal["items", "exchanges", "forms"]
Row = dict[str, Any]
KINDS: tuple[Kind, ...] = ("items", "exchanges", "forms")

_CHAIN = {"conversation": str, "tenant": str, "place": int, "seq": int}
COLUMNS: dict[Kind, dict[str, type]] = {
    "items": {
        **_CHAIN,
        **dict.fromkeys(("id", "branch", "kind", "role", "call_id", "source", "group", "exchange", "created_at"), str),
        "is_pinned": bool,
        "importance": float,
        "size_bytes": int,
        **dict.fromkeys(("text", "original", "body_hash", "seal"), str),
    },
    "exchanges": {
        **_CHAIN,
        **dict.fromkeys(("id", "branch", "verdict", "method", "path", "model", "wire"), str),
        "is_stream": bool,
        **dict.fromkeys(("request_bytes", "items"), int),
        **dict.fromkeys(("created_at", "note", "outcome", "finish", "error", "ended_at"), str),
        **dict.fromkeys(("status", "attempts", "input", "cached", "written", "output", "reasoning", "breaks"), int),
        "is_estimated": bool,
        **dict.fromkeys(("cost", "cost_direct", "first_byte_ms", "duration_ms"), float),
        **dict.fromkeys(("window", "policy", "window_reason", "out_hash"), str),
        **dict.fromkeys(("tokens_in", "tokens_out", "first_change", "out_bytes"), int),
        "seal": str,
    },
    "forms": {
        **_CHAIN,
        **dict.fromkeys(("window", "exchange", "policy", "window_reason"), str),
        "index": int,
        **dict.fromkeys(("item", "form", "reason"), str),
        "score": float,
        **dict.fromkeys(("tokens", "bytes_before", "bytes_after"), int),
        **dict.fromkeys(("body_hash", "out_hash", "created_at"), str),
    },
}
_SOURCE: dict[Kind, SealedTable] = {"items": MESSAGES, "exchanges": EXCHANGES, "forms": WINDOWS}


def rows(
    archive: Archive, filters: Filters, kind: Kind, *, on_rows: Callable[[int], None] = lambda rows: None
) -> Iterator[Row]:
    """The rows of one kind, conversation by conversation, each in the order it was sealed."""
    make = {"items": _items, "exchanges": _exchanges, "forms": _forms}[kind]
    for chain in archive.all_chains(filters):
        for row in archive.all_rows(chain.number, upto=chain.length, tables=[_SOURCE[kind]]):
            if row.values is not None:
                yield from make(archive, chain, row)
        on_rows(chain.length)


def _common(chain: ChainLine, row: SealedRow) -> Row:
    return {"conversation": chain.id, "tenant": chain.tenant, "place": row.place, "seq": row.seq}


def _values(row: SealedRow) -> Row:
    return dict(zip(row.table.names, row.values or (), strict=True))


def _items(archive: Archive, chain: ChainLine, row: SealedRow) -> Iterator[Row]:
    values = _values(row)
    data = archive.body(values["body"]) or b""
    yield {
        **values,
        **_common(chain, row),
        "is_pinned": bool(values["is_pinned"]),
        "size_bytes": len(data),
        "text": readable_text(data) if data else "",
        "original": data.decode("utf-8", "backslashreplace"),
        "body_hash": values["body"].hex(),
        "seal": row.seal.hex(),
    }


def _exchanges(archive: Archive, chain: ChainLine, row: SealedRow) -> Iterator[Row]:
    values = _values(row)
    ended = archive.read(partial(archive_joins.outcome, exchange=values["id"]))
    window = archive.read(partial(archive_joins.last_window, exchange=values["id"]))
    sent = {name: window.get(name) for name in ("policy", "out_hash", "tokens_in", "tokens_out", "first_change")}
    yield {
        **ended,
        **values,
        **_common(chain, row),
        "is_stream": bool(values["is_stream"]),
        "is_estimated": bool(ended.get("is_estimated")),
        **sent,
        "window": window.get("id"),
        "window_reason": window.get("reason"),
        "out_bytes": window.get("out_bytes"),
        "seal": row.seal.hex(),
    }


def _forms(archive: Archive, chain: ChainLine, row: SealedRow) -> Iterator[Row]:
    values = _values(row)
    entries = values["tail"]
    after = archive.read(partial(archive_joins.body_sizes, hashes=[entry[2] for entry in entries]))
    ids = [entry[0] for entry in entries]
    before = archive.read(partial(archive_joins.item_sizes, conversation=chain.id, ids=ids))
    for place, (item, form, body, tokens, reason, score) in enumerate(entries, start=values["keep"]):
        yield {
            **_common(chain, row),
            "window": values["id"],
            "exchange": values["exchange"],
            "policy": values["policy"],
            "window_reason": values["reason"],
            "index": place,
            "item": item,
            "form": form_name(form),
            "reason": reason,
            "score": score,
            "tokens": tokens,
            "bytes_before": before.get(item),
            "bytes_after": after.get(body),
            "body_hash": body.hex(),
            "out_hash": values["out_hash"],
            "created_at": values["created_at"],
        }


def form_name(form: int) -> str:
    try:
        return Form(form).name.lower()
    except ValueError:
        return str(form)
