"""The SHA-256 of a body that mostly repeats the one before it: only what is new is hashed. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Hashed:
    """A body with its hash in hexadecimal. A longer one that agrees with it up to `end` is hashed on from there."""

    body: bytes
    hexdigest: str
    end: int
    _state: hashlib._Hash  # of the bytes before `end`


def sha256(body: bytes, end: int, known: Hashed | None = None) -> Hashed:
    """Hash `body`. `end`: how much of it the next one will have again; `known`: the body before, which may help."""
    start, state = 0, hashlib.sha256()
    if known is not None and known.end <= end and body.startswith(memoryview(known.body)[: known.end]):
        start, state = known.end, known._state.copy()
    view = memoryview(body)
    state.update(view[start:end])
    kept = state.copy()
    state.update(view[end:])
    return Hashed(body, state.hexdigest(), end, kept)
