"""Imports a complete export into an empty store. A file that does not hold in every row is refused, whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from proxy.audit.reading import Event, Reader
from proxy.errors import StoreError
from proxy.store.archive import ChainLine
from proxy.store.loading import Loader


def restore(lines: Iterable[bytes], path: Path, *, on_bytes: Callable[[int], None] = lambda size: None) -> int:
    """Write the export's rows, with their seals, into a new store at `path`; the number of rows.

    Raises `StoreError` naming what is wrong with the export; `path` is then as it was.
    """
    reader = Reader()
    with Loader(path) as loader:
        number = 0
        chain: ChainLine | None = None
        for event in reader.read(lines):
            on_bytes(event.size)
            _refuse(reader)
            if event.chain is not None:
                chain, number = event.chain, loader.chain(event.chain.id)
            elif event.type == "end" and chain is not None:
                loader.close_chain(number, chain.length, chain.head)
            else:
                _write(loader, number, event)
        reader.finish()
        _refuse(reader)
        loader.finish()
    return reader.progress.rows


def _write(loader: Loader, number: int, event: Event) -> None:
    if event.data is not None:
        loader.body(event.hash, event.data, event.mark)
    if event.row is not None and event.row.values is not None:
        loader.row(number, event.row.table, event.row.place, event.row.seal, event.row.values)
    elif event.state is not None:
        loader.state(event.table, event.state)


def _refuse(reader: Reader) -> None:
    if reader.problems:
        raise StoreError(f"the export does not hold: {reader.problems[0]}", hint="undercliff verify names all of it.")
