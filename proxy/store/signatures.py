"""Signs chain heads, exports and tombstones with the key that is kept beside the store. Pure.

A chain alone shows what was changed in place. Whoever can write the file can also compute a whole chain anew,
but cannot sign its head without the key. An older state of the file still holds: only a head noted elsewhere tells.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any, Literal

import msgspec

Purpose = Literal["tombstone", "chain", "export", "store"]


def signature(secret: bytes, purpose: Purpose, *told: Any) -> bytes:
    """HMAC-SHA-256 under a key of its own, derived from the store's secret; empty without one."""
    if not secret:
        return b""
    key = hmac.new(secret, f"undercliff {purpose} 1".encode(), sha256).digest()
    return hmac.new(key, msgspec.msgpack.encode(told), sha256).digest()


def is_signed(found: bytes, secret: bytes, purpose: Purpose, *told: Any) -> bool:
    return bool(found) and hmac.compare_digest(found, signature(secret, purpose, *told))
