"""Which store a command is about: from --db, else from the configuration. Opens it for audits, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from proxy.config import load_config
from proxy.core.filters import OUTCOMES, Filters
from proxy.errors import NotFoundError
from proxy.store.archive import Archive
from proxy.store.open import file_of, is_postgres
from proxy.store.secret import SECRET_BYTES, read_secret
from proxy.store.source import Place
from proxy.store.sqlite_connection import connect_writer

DbOption = Annotated[
    str | None, typer.Option("--db", metavar="PATH-OR-URL", help="The store to read; the server's own by default.")
]
TenantOption = Annotated[str, typer.Option("--tenant", metavar="ID", help="Only this team's conversations.")]
ModelOption = Annotated[str, typer.Option("--model", metavar="NAME", help="Only with calls to it; * for anything.")]
SinceOption = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Only with calls from then on; ISO 8601, UTC without an offset.")
]
UntilOption = Annotated[str, typer.Option("--until", metavar="TIME", help="Only with calls before then.")]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="The .secret file of the store: signatures are checked with it."),
]
OutcomeOption = Annotated[str, typer.Option("--outcome", metavar="NAME", help=f"One of: {', '.join(OUTCOMES)}.")]


def filters_of(ids: list[str], tenant: str, model: str, since: str, until: str, outcome: str) -> Filters:
    """The options of a list or an export as one value. Raises BadParameter."""
    if outcome and outcome not in OUTCOMES:
        raise typer.BadParameter(f"{outcome!r} is no outcome; there are {', '.join(OUTCOMES)}")
    try:
        return Filters(tuple(ids), tenant, model, since, until, outcome).in_utc()
    except ValueError as error:
        raise typer.BadParameter(f"{error}; write times as 2026-01-31 or 2026-01-31T14:05:00+01:00") from error


def store_place(config: Path | None, db: str | None) -> Place:
    """The store that is meant, brought up to this version's schema. Raises `NotFoundError`."""
    settings = load_config(config, {"store.url": db} if db else None)
    return settings.store.url if is_postgres(settings.store.url) else store_file(config, db)


def store_key(config: Path | None, place: Place) -> bytes:
    """The key of a store, as this machine has it; empty without one."""
    if isinstance(place, Path):
        return read_secret(place)
    try:
        return Path(load_config(config).store.secret_file).read_bytes()
    except OSError:
        return b""


def store_file(config: Path | None, db: str | None) -> Path:
    """The file of the store that is meant, brought up to this version's schema. Raises `NotFoundError`."""
    settings = load_config(config, {"store.url": db} if db else None)
    path = file_of(settings.store.url)
    if path is None:
        raise NotFoundError(
            "this works on a SQLite file only", hint="Name one with --db. PostgreSQL is copied with pg_dump."
        )
    if not path.exists():
        raise NotFoundError(f"there is no store at {path}", hint="Run undercliff serve first, or name one with --db.")
    connect_writer(path).close()
    return path


@contextmanager
def on_file(path: Path, doing: str) -> Iterator[None]:
    """What the system says of a file that was named, in one line. Raises `NotFoundError`."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotFoundError(
            f"cannot {doing} {path}: {reason}", hint="Name a file, in a folder that is there."
        ) from error


def key_of(file: Path | None) -> bytes:
    """The key in a file that was named. Raises `NotFoundError`."""
    if file is None:
        return b""
    try:
        key = file.read_bytes()
    except OSError as error:
        raise NotFoundError(f"cannot read the key {file}: {error.strerror}", hint="It is beside the store.") from error
    if len(key) < SECRET_BYTES:
        raise NotFoundError(f"{file} is no key", hint="It is the .secret file beside the store.")
    return key


def complete(archive: Archive, filters: Filters) -> Filters:
    """The same with whole conversation ids for beginnings of them. Raises `NotFoundError`."""
    if not filters.conversations:
        return filters
    known = [chain.id for chain in archive.all_chains(Filters())]
    ids = []
    for prefix in filters.conversations:
        found = [prefix] if prefix in known else [id for id in known if id.startswith(prefix)]
        if len(found) != 1:
            what = "no conversation starts" if not found else f"{len(found)} conversations start"
            raise NotFoundError(f"{what} with {prefix!r}", hint="List them: undercliff conversations.")
        ids += found
    return Filters(tuple(ids), filters.tenant, filters.model, filters.since, filters.until, filters.outcome)


def progress_bar() -> Progress:
    """On stderr, and gone when it is done; nothing where stderr is no terminal."""
    from_left = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    console = Console(stderr=True)
    return Progress(*from_left, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)
