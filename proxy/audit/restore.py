"""Imports a complete export into an empty store. A file that does not hold in every row is refused, whole."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from proxy.audit.reading import Event, Reader
from proxy.errors import StoreError
from proxy.store.archive import ChainLine
from proxy.store.loading import Loader
from proxy.store.secret import SECRET_BYTES, keep_secret, read_secret, secret_file


def restore(
    lines: Iterable[bytes], path: Path, *, secret: bytes = b"", on_bytes: Callable[[int], None] = lambda size: None
) -> int:
    """Write the export's rows, with their seals, into a new store at `path`; the number of rows.

    With the key of the store it came from, its signatures are checked, and the new store keeps that key, so that
    it knows the same teams. Otherwise the new store signs with a key of its own: the importer vouches from now on.
    Raises `StoreError` naming what is wrong with the export; `path` is then as it was.
    """
    own = read_secret(path)
    if secret and own and own != secret:
        raise StoreError(f"{secret_file(path)} is there already, and is another key", hint="Choose another new store.")
    key = secret or own or secrets.token_bytes(SECRET_BYTES)
    reader = Reader(secret=secret)
    with Loader(path, key) as loader:
        number = 0
        chain: ChainLine | None = None
        for event in reader.read(lines):
            on_bytes(event.size)
            _refuse(reader)
            if event.chain is not None:
                chain, number = event.chain, loader.chain(event.chain.id)
            elif event.type == "end" and chain is not None:
                loader.close_chain(number, chain.id, chain.length, chain.head)
            else:
                _write(loader, number, event)
        reader.finish()
        _refuse(reader)
        keep_secret(secret_file(path), key)
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
