"""Whatever was hashed before, a body's hash is that of its bytes."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.hashing import Hashed, sha256

PARTS = st.lists(st.binary(max_size=4), max_size=6).map(b"".join)


@given(st.lists(st.tuples(PARTS, PARTS, PARTS), min_size=1, max_size=5))
def test_the_hash_is_that_of_the_bytes(bodies: list[tuple[bytes, bytes, bytes]]) -> None:
    known: Hashed | None = None
    before = b""
    for begun, more, suffix in bodies:
        head = (before if len(begun) % 2 else begun) + more
        known = sha256(head + suffix, len(head), known)
        assert known.hexdigest == hashlib.sha256(head + suffix).hexdigest()
        before = head


def test_what_is_known_is_not_hashed_again() -> None:
    class Counted:
        """A state that tells how much it took."""

        def __init__(self, taken: int = 0) -> None:
            self.taken = taken

        def update(self, data: memoryview) -> None:
            taken.append(len(data))

        def copy(self) -> Counted:
            return self

        def hexdigest(self) -> str:
            return ""

    taken: list[int] = []
    known = Hashed(b"x" * 1000 + b"]}", "", 1000, Counted())  # type: ignore[arg-type]
    sha256(b"x" * 1000 + b"new]}", 1003, known)
    assert taken == [3, 2]
