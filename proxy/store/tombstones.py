"""Signs what stands in place of an erased conversation, with the key that is kept beside the store. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from proxy.store import signatures
from proxy.store.archive import Tombstone


def signed(stone: Tombstone, secret: bytes) -> Tombstone:
    return replace(stone, signature=signatures.signature(secret, "tombstone", *_told(stone)))


def is_signed(stone: Tombstone, secret: bytes) -> bool:
    return signatures.is_signed(stone.signature, secret, "tombstone", *_told(stone))


def _told(stone: Tombstone) -> tuple[Any, ...]:
    return (stone.number, stone.conversation, stone.tenant, stone.length, stone.head, stone.reason, stone.erased_at)
