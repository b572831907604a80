"""The same bytes in every way a network may cut them: whole, one at a time, and cut once at every place."""

from __future__ import annotations

from collections.abc import Iterator


def feeds(data: bytes, *, every_cut: bool = True) -> Iterator[list[bytes]]:
    """Lists of chunks that join to `data`. Without `every_cut` only some cuts, for long data."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    step = 1 if every_cut else max(1, len(data) // 50)
    for cut in range(1, len(data), step):
        yield [data[:cut], data[cut:]]
