"""`undercliff migrate-store`: a file's conversations into a database for several replicas, and proof that all came."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxy.audit.verify import Verified, verify_store
from proxy.cli.running import ConfigOption
from proxy.cli.stores import progress_bar, store_file
from proxy.config import load_config
from proxy.errors import NotFoundError, StoreError
from proxy.store.archive import Archive
from proxy.store.open import is_postgres, postgres_module
from proxy.store.secret import keep_secret, read_secret, secret_file


def migrate_store(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="The SQLite store to copy from.")],
    target: Annotated[str, typer.Argument(metavar="URL", help="postgresql://host/database, with nothing in it yet.")],
    config: ConfigOption = None,
) -> None:
    """Copy a SQLite store into PostgreSQL and verify all of it: every row, body, seal and chain.

    Broken off, the same command goes on. The file is only read; stop the server first, or what it writes meanwhile
    is not in the copy. The key beside the file becomes the key of the new store (store.secret_file).
    """
    if not is_postgres(target):
        raise NotFoundError(f"{target} is no PostgreSQL database", hint="Give postgresql://host/database.")
    path = store_file(config, str(source))
    moving = postgres_module("moving")
    key = _kept_key(path, Path(load_config(config, {"store.url": target}).store.secret_file))
    with progress_bar() as bar:
        task = bar.add_task("copying", total=moving.size(path))
        moving.move(path, target, secret=key, on_rows=lambda table, rows: bar.advance(task, rows))
    rows = 0
    for table in moving.compare(path, target):
        rows += table.rows
        if not table.is_same:
            raise StoreError(f"the table {table.table} is not the same there", hint="Run the command again.")
    moving.finish(target)
    with Archive(path) as one, Archive(target) as other:
        ours, theirs = verify_store(one, secret=key or None), verify_store(other, secret=key or None)
    _compare(ours, theirs)
    typer.echo(
        f"{rows:,} rows are the same on both sides; {theirs.chains:,} chains, {theirs.bodies:,} bodies,"
        f" heads {theirs.heads}",
        err=True,
    )


def _kept_key(path: Path, place: Path) -> bytes:
    """The file's key, now also where servers of the new store look for it. Raises `NotFoundError`."""
    key = read_secret(path)
    if not key:
        raise NotFoundError(f"there is no key file {secret_file(path)}", hint="The server makes it when it starts.")
    try:
        if keep_secret(place, key) != key:
            raise NotFoundError(f"{place} is another store's key", hint="Name another file with store.secret_file.")
    except OSError as error:
        raise NotFoundError(f"cannot keep the key {place}: {error}", hint="See store.secret_file.") from error
    return key


def _compare(ours: Verified, theirs: Verified) -> None:
    if (ours.heads, ours.rows, ours.bodies, ours.tombstones) != (
        theirs.heads, theirs.rows, theirs.bodies, theirs.tombstones,
    ) or ours.problems != theirs.problems:  # fmt: skip
        problem = next((found for found in theirs.problems if found not in ours.problems), "the heads differ")
        raise StoreError(f"the copy does not hold: {problem}", hint="Copy anew into an empty database.")
