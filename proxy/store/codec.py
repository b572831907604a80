"""How values lie in a column: packed bytes, id lists and window entries. Knows neither SQL nor a backend."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import zstandard

from proxy.core.records import Batch, Entry, ItemRow

_RAW, _ZSTD = b"\0", b"\1"
_WORTH_TRYING = 200  # below this a frame's header eats what compression saves
_MAX_BYTES = 1 << 31

_local = threading.local()  # a zstd context must not be shared between threads

_encode = msgspec.msgpack.encode
_decode_texts = msgspec.msgpack.Decoder(tuple[str, ...]).decode
_decode_blobs = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
_decode_entries = msgspec.msgpack.Decoder(list[tuple[str, int, bytes, int, str, float]]).decode
_DATA, _ATOMS, _TEXT = attrgetter("data"), attrgetter("atoms"), attrgetter("text")


def pack(data: bytes) -> bytes:
    """One tag byte, then the bytes, compressed where that pays. `unpack` gives them back unchanged."""
    if len(data) >= _WORTH_TRYING:
        compressor = getattr(_local, "compressor", None)
        if compressor is None:
            compressor = _local.compressor = zstandard.ZstdCompressor(level=1)
        small: bytes = compressor.compress(data)
        if len(small) < len(data) * 0.9:
            return _ZSTD + small
    return _RAW + data


def unpack(packed: bytes) -> bytes:
    """The bytes that were packed. Raises ValueError for bytes that `pack` cannot have made."""
    tag = packed[:1]
    if tag == _RAW:
        return packed[1:]
    if tag != _ZSTD:
        raise ValueError("unknown tag of a packed value")
    try:
        return zstandard.ZstdDecompressor().decompress(packed[1:], max_output_size=_MAX_BYTES)
    except zstandard.ZstdError as error:
        raise ValueError(f"damaged packed value: {error}") from error


def pack_text(text: str) -> bytes:
    """Text as packed UTF-8; lone surrogates, which JSON can carry, survive."""
    return pack(text.encode("utf-8", "surrogatepass"))


def unpack_text(packed: bytes) -> str:
    return unpack(packed).decode("utf-8", "surrogatepass")


def storable(text: str) -> str:
    """The text without lone surrogates, which no database takes as text."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def pack_strings(values: Sequence[str]) -> bytes:
    return pack(_encode(values))


def unpack_strings(packed: bytes) -> tuple[str, ...]:
    return _decode_texts(unpack(packed))


def pack_blobs(values: Sequence[bytes]) -> bytes:
    return pack(_encode(values))


def unpack_blobs(packed: bytes) -> tuple[bytes, ...]:
    return _decode_blobs(unpack(packed))


def pack_entries(entries: Sequence[Sequence[Any]]) -> bytes:
    """Window entries, each as its fields in order."""
    return pack(_encode(entries))


def unpack_entries(packed: bytes) -> tuple[Entry, ...]:
    return tuple(Entry(*fields) for fields in _decode_entries(unpack(packed)))


def batch_bytes(batch: Batch) -> int:
    """About how much memory a queued batch holds."""
    size = 256
    size += 120 * len(batch.bodies) + sum(map(len, map(_DATA, batch.bodies)))
    size += _item_bytes(batch.items) + _item_bytes(batch.replies)
    for fold in batch.folds:
        size += 300 + _item_bytes(fold.fresh)
    for arrival in batch.arrivals:
        size += 200 + 70 * len(arrival.items)
    for branch in batch.branches:
        size += 600 + len(branch.state)
    for path in batch.paths:
        size += 200 + 70 * len(path.tail)
    for window in batch.windows:
        size += 800 + 220 * len(window.tail) + 50 * len(window.gaps)
    for plan in batch.plans:
        size += 200 + len(plan.data)
    for summary in batch.summaries:
        size += 300 + 70 * len(summary.covers)
    size += 800 * (len(batch.exchanges) + len(batch.outcomes) + len(batch.summary_calls))
    return size + 200 * (len(batch.links) + len(batch.keys) + len(batch.learned) + len(batch.client_keys))


def _item_bytes(items: Sequence[ItemRow]) -> int:
    return 500 * len(items) + sum(map(len, map(_ATOMS, items))) + sum(map(len, map(_TEXT, items)))
