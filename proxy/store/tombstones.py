"""Signs what stands in place of an erased conversation, with a key that is kept beside the store. Pure."""

from __future__ import annotations

import hmac
from dataclasses import replace
from hashlib import sha256

import msgspec

from proxy.store.archive import Tombstone

_PURPOSE = b"undercliff tombstone 1"


def signed(stone: Tombstone, secret: bytes) -> Tombstone:
    return replace(stone, signature=_signature(stone, secret))


def is_signed(stone: Tombstone, secret: bytes) -> bool:
    return hmac.compare_digest(stone.signature, _signature(stone, secret))


def _signature(stone: Tombstone, secret: bytes) -> bytes:
    """HMAC-SHA-256 under a key of its own, derived from the store's secret."""
    key = hmac.new(secret, _PURPOSE, sha256).digest()
    told = msgspec.msgpack.encode(
        (stone.number, stone.conversation, stone.tenant, stone.length, stone.head, stone.reason, stone.erased_at)
    )
    return hmac.new(key, told, sha256).digest()
