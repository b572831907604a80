"""The complete export: every display row with its seal, every original, one JSON object a line.

Lines: `export` (what was asked), then for each conversation `chain` (its length, head and signature), `body` and
`row` lines, `state` lines of the working store, and `end`; at last `tombstone` lines and `close`. `end` and `close`
carry the SHA-256 of all bytes before them, and `close` a signature of it, where the store has its key.
Bounded memory: a page of rows, and the hashes of late bodies.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from proxy.audit.checking import RecentBodies, bodies_of
from proxy.core.filters import Filters
from proxy.store import signatures
from proxy.store.archive import STATE_TABLES, Archive, ChainLine, SealedRow, Tombstone
from proxy.store.seals import bytes_to_json, to_json

FORMAT = 1


@dataclass(slots=True)
class Progress:
    """How far an export is; also where a broken-off one goes on."""

    digest: Any = field(default_factory=sha256)
    recent: RecentBodies = field(default_factory=RecentBodies)
    chains: int = 0  # begun and ended
    rows: int = 0
    after: int = 0  # the number of the last chain that was ended
    open: ChainLine | None = None  # the chain that was begun and not ended
    place: int = 0  # its last row
    is_begun: bool = False


def write(
    archive: Archive,
    filters: Filters,
    *,
    exported_at: str,
    version: str,
    progress: Progress | None = None,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> Iterator[bytes]:
    """The lines, or those behind `progress`."""
    state = progress or Progress()
    for line in _lines(archive, filters, state, exported_at, version, on_rows):
        state.digest.update(line)
        yield line


def _lines(
    archive: Archive, filters: Filters, state: Progress, exported_at: str, version: str, on_rows: Callable[[int], None]
) -> Iterator[bytes]:
    if not state.is_begun:
        asked = {name: value for name, value in asdict(filters).items() if value}
        yield _line(
            "export", product="undercliff", format=FORMAT, version=version, exported_at=exported_at, filters=asked
        )
    if state.open is not None:
        yield from _rows(archive, state.open, state, on_rows)
    for chain in archive.all_chains(filters, state.after):
        state.recent.clear()
        state.place = 0
        yield chain_line(chain)
        yield from _rows(archive, chain, state, on_rows)
    if filters.is_open:
        for stone in archive.tombstones():
            yield _line("tombstone", **tombstone_json(stone))
    sum = state.digest.hexdigest()
    signed = signatures.signature(archive.secret, "export", sum).hex()
    yield _line("close", chains=state.chains, rows=state.rows, sha256=sum, signature=signed)


def _rows(
    archive: Archive, chain: ChainLine, state: Progress, on_rows: Callable[[int], None]
) -> Iterator[bytes]:  # fmt: skip
    after = state.place
    while page := archive.rows(chain.number, after, chain.length):
        for row in page:
            yield from _bodies(archive, row, state.recent)
            yield _row_line(archive, row, state.recent)
        after = page[-1].place
        state.rows += len(page)
        on_rows(len(page))
    for table in STATE_TABLES:
        for values in archive.state(table, chain.id):
            yield _line("state", table=table, row={name: _state_value(value) for name, value in values.items()})
    yield _line("end", id=chain.id, sha256=state.digest.hexdigest())
    state.chains += 1
    state.after = chain.number
    state.open = None


def _bodies(archive: Archive, row: SealedRow, recent: RecentBodies) -> Iterator[bytes]:
    """Bodies that this row needs and that were not given yet; a message's own stands in its line."""
    own = row.value("body") if row.table.name == "messages" and row.values is not None else None
    wanted = [hash for hash in dict.fromkeys(bodies_of(row)) if hash != own and hash not in recent]
    for hash, data, mark in archive.bodies(wanted):
        if data is not None:
            recent.add(hash)
            yield _line("body", hash=hash.hex(), data=bytes_to_json(data), **_mark(mark))


def _row_line(archive: Archive, row: SealedRow, recent: RecentBodies) -> bytes:
    values = to_json(row.table, row.values) if row.values is not None else None
    line = {"table": row.table.name, "place": row.place, "seq": row.seq, "seal": row.seal.hex(), "row": values}
    if row.table.name == "messages" and row.values is not None:
        hash = row.value("body")
        _, data, mark = next(archive.bodies([hash]), (hash, None, b""))
        line["original"] = None if data is None else bytes_to_json(data)
        line.update(_mark(mark))
        if data is not None:
            recent.add(hash)
    return _line("row", **line)


def _mark(mark: bytes) -> dict[str, str]:
    """Says of bytes that they were redacted at capture, and what they hash to since."""
    return {"redacted": mark.hex()} if mark else {}


def chain_line(chain: ChainLine) -> bytes:
    """What begins a conversation. Without a creation time it is the rows of no conversation."""
    values = asdict(chain)
    values |= {"head": chain.head.hex(), "signature": chain.signature.hex()}
    return _line("chain", **values)


def tombstone_json(stone: Tombstone) -> dict[str, Any]:
    values = asdict(stone)
    return {**values, "head": stone.head.hex(), "signature": stone.signature.hex()}


def _state_value(value: Any) -> Any:
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value


def _line(type: str, **values: Any) -> bytes:
    return orjson.dumps({"type": type, **values}) + b"\n"
