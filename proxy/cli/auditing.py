"""Commands of an administrator: verify, erase on order, copy a store that is in use."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from proxy.audit.reading import lines_of
from proxy.audit.verify import Verified, verify_export, verify_store
from proxy.cli.running import ConfigOption
from proxy.cli.stores import (
    DbOption,
    KeyOption,
    complete,
    key_of,
    on_file,
    progress_bar,
    store_file,
    store_key,
    store_place,
)
from proxy.config import load_config
from proxy.core.filters import Filters, utc_stamp
from proxy.errors import NotFoundError
from proxy.store.archive import Archive
from proxy.store.erasure import back_up, erase
from proxy.store.open import is_postgres, postgres_module
from proxy.store.secret import keep_secret, read_secret, secret_file
from proxy.store.source import Place

_SQLITE_MAGIC = b"SQLite format 3\0"


def verify(
    target: Annotated[
        str | None, typer.Argument(metavar="[DB|EXPORT]", help="A store's file or URL, or a complete export.")
    ] = None,
    heads: Annotated[
        str, typer.Option("--heads", metavar="HASH", help="What an earlier run printed, to compare.")
    ] = "",
    key: KeyOption = None,
    db: DbOption = None,
    config: ConfigOption = None,
) -> None:
    """Check every row, body and chain, and who signed them.

    Exit code 1, and a line for each fault, when something was changed. A store's key lies beside it; for an export
    give --key: without it, only the chain is checked, which its writer could have computed anew. A file that was
    put back to an older state of itself still holds: note the heads elsewhere, and compare with --heads.
    """
    with progress_bar() as bar:
        if target is not None and not is_postgres(target) and not _is_store(export := Path(target)):
            task = bar.add_task("verifying", total=export.stat().st_size)
            with on_file(export, "read"), export.open("rb") as file:
                found = verify_export(lines_of(file), secret=key_of(key), on_bytes=lambda size: bar.advance(task, size))
        else:
            place = store_place(config, target if target is not None else db)
            with Archive(place) as archive:
                task = bar.add_task("verifying", total=archive.size(Filters())[1])
                secret = key_of(key) or store_key(config, place) or None
                found = verify_store(archive, secret=secret, on_rows=lambda count: bar.advance(task, count))
    _print_verdict(found, heads)


def _is_store(path: Path) -> bool:
    if not path.exists():
        raise NotFoundError(f"there is no {path}", hint="Name a store's file, or an export in the format jsonl.")
    with on_file(path, "read"), path.open("rb") as file:
        return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC


def _print_verdict(found: Verified, heads: str) -> None:
    for problem in found.problems:
        typer.echo(str(problem))
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    counts = f"{found.chains:,} chains, {found.rows:,} rows, {found.bodies:,} bodies, {found.tombstones} tombstones"
    is_same = not heads or heads == found.heads
    if not is_same:
        typer.echo(f"changed: the heads are {found.heads}, not {heads}")
    typer.echo(f"{'ok' if found.holds and is_same else 'NOT OK'}: {counts}; heads {found.heads}")
    if not (found.holds and is_same):
        raise typer.Exit(1)


def forget(
    conversation: Annotated[str, typer.Argument(help="A conversation's id, or the start of it.")] = "",
    tenant: Annotated[str, typer.Option("--tenant", metavar="ID", help="All of this team's data instead.")] = "",
    reason: Annotated[str, typer.Option(help="Stands in the tombstone; name nobody in it.")] = "erased on order",
    confirm: Annotated[
        str, typer.Option("--confirm", metavar="ID", help="The id once more, whole: there is no way back.")
    ] = "",
    db: DbOption = None,
    config: ConfigOption = None,
) -> None:
    """Erase a conversation or a team's data for good; a signed tombstone stays. The server must be stopped."""
    if bool(conversation) == bool(tenant):
        raise typer.BadParameter("name a conversation, or a team with --tenant")
    place = store_place(config, db)
    with Archive(place) as archive:
        if conversation:
            wanted = complete(archive, Filters((conversation,)))
            chains = list(archive.all_chains(wanted))
        else:
            chains = [chain for chain in archive.all_chains(Filters()) if chain.tenant == tenant]
    name = tenant or chains[0].id
    if not chains:
        raise NotFoundError(f"there is nothing of the team {tenant!r}", hint="undercliff conversations --json.")
    rows = sum(chain.length for chain in chains)
    if confirm != name:
        typer.echo(f"{len(chains)} conversations with {rows:,} rows would be erased for good.", err=True)
        typer.echo(f"Order it with: --confirm {name}", err=True)
        raise typer.Exit(2)
    key, at = _secret(config, place), utc_stamp(datetime.now(UTC).isoformat())
    if isinstance(place, Path):
        erase(place, chains, secret=key, reason=reason, at=at)
    else:
        postgres_module("postgres_erasure").erase(place, chains, secret=key, reason=reason, at=at)
    typer.echo(f"erased {len(chains)} conversations, {rows:,} rows; copies made before are not touched", err=True)


def _secret(config: Path | None, place: Place) -> bytes:
    if not (key := store_key(config, place)):
        file = secret_file(place) if isinstance(place, Path) else load_config(config).store.secret_file
        raise NotFoundError(f"there is no key file {file} to sign with", hint="The server makes it when it starts.")
    return key


def backup(
    target: Annotated[Path, typer.Argument(help="The file to write.")],
    db: DbOption = None,
    config: ConfigOption = None,
) -> None:
    """Copy the store as it is at one moment, while the server runs. The key file beside it is copied too."""
    path = store_file(config, db)
    if target.exists():
        raise NotFoundError(f"{target} is there already", hint="Choose another name: a backup overwrites nothing.")
    if not target.parent.is_dir():
        raise NotFoundError(f"there is no folder {target.parent}", hint="Make it first.")
    back_up(path, target)
    if key := read_secret(path):
        keep_secret(secret_file(target), key)
    typer.echo(f"{target}  {target.stat().st_size:,} bytes", err=True)
