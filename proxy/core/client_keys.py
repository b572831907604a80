"""Client keys of teams: what they look like and how they are kept. Pure: randomness comes from the caller.

A key is `uc_TEAM_SECRET` with a check sum at its end, so that a mistyped one is told apart without a look-up
and scanners for leaked secrets can know it. Only its SHA-256 is kept: the secret has 160 random bits.
"""

from __future__ import annotations

import re
from hashlib import sha256
from zlib import crc32

PREFIX = "uc_"
SECRET_BYTES = 20
_KEY = re.compile(r"uc_([a-z0-9][a-z0-9_-]{0,39})_([0-9a-f]{40})([0-9a-f]{8})")


def make_key(team: str, random: bytes) -> str:
    """A key of `team` from `SECRET_BYTES` random bytes."""
    start = f"{PREFIX}{team}_{random.hex()}"
    return f"{start}{crc32(start.encode()):08x}"


def is_whole(key: str) -> bool:
    """Is it a key as `make_key` writes them, without a letter wrong?"""
    found = _KEY.fullmatch(key)
    return found is not None and key == make_key(found[1], bytes.fromhex(found[2]))


def hash_key(key: str) -> bytes:
    """What is kept of a key, 32 bytes."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def key_id(hash: bytes) -> str:
    """The name of a key in lists and commands."""
    return hash.hex()[:12]
