"""`keys create|list|revoke|rotate` and `usage`: the teams of a store. Works on the store alone, while servers run."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from proxy.cli.stores import DbOption
from proxy.config import Config, load_config
from proxy.core.client_keys import SECRET_BYTES, hash_key, key_id, make_key
from proxy.core.records import Batch, ClientKeyRow
from proxy.errors import NotFoundError
from proxy.store.base import Store
from proxy.store.open import open_store

T = TypeVar("T")

ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The server's configuration.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
keys = typer.Typer(
    help="Client keys of teams: made once, kept as hashes, ended without a restart.", no_args_is_help=True
)


@keys.command()
def create(
    team: Annotated[str, typer.Argument(help="A team of the configuration.")],
    config: ConfigOption = None,
    db: DbOption = None,
) -> None:
    """Make a key and print it, this once. Servers know it within a few seconds."""
    settings = _settings(config, db)
    _check_team(settings, team)
    row, key = _made(team)
    _on_store(settings, lambda store: store.submit(Batch(client_keys=(row,))))
    _print_key(row, key)


@keys.command("list")
def list_(config: ConfigOption = None, db: DbOption = None, as_json: JsonOption = False) -> None:
    """Every key: its id, team and state. The keys themselves are not kept."""
    rows = _on_store(_settings(config, db), lambda store: store.client_keys())
    if as_json:
        typer.echo(json.dumps([{**asdict(row), "hash": row.hash.hex()} for row in rows], indent=2))
        return
    table = Table("id", "team", "made", "ends")
    for row in rows:
        table.add_row(row.id, row.team, row.created_at[:19], row.revoked_at[:19] or "-")
    Console().print(table)


@keys.command()
def revoke(
    id: Annotated[str, typer.Argument(help="The key's id, as keys list has it.")],
    config: ConfigOption = None,
    db: DbOption = None,
) -> None:
    """End a key. Servers refuse it within a few seconds, and it never comes back."""
    settings = _settings(config, db)

    async def end(store: Store) -> None:
        row = await _find(store, id)
        await store.submit(Batch(client_keys=(replace(row, revoked_at=_moment()),)))

    _on_store(settings, end)
    typer.echo(f"key {id} counts no more")


@keys.command()
def rotate(
    id: Annotated[str, typer.Argument(help="The key's id, as keys list has it.")],
    grace_hours: Annotated[float, typer.Option("--grace-hours", min=0, help="The old key counts so much longer.")] = 24,
    config: ConfigOption = None,
    db: DbOption = None,
) -> None:
    """Make a key in place of another, which ends after a while. Conversations are the team's and go on."""
    settings = _settings(config, db)

    async def exchange(store: Store) -> tuple[ClientKeyRow, str]:
        old = await _find(store, id)
        row, key = _made(old.team)
        await store.submit(Batch(client_keys=(row, replace(old, revoked_at=_moment(grace_hours)))))
        return row, key

    _print_key(*_on_store(settings, exchange))


def usage(
    days: Annotated[int, typer.Option("--days", min=1, help="So many UTC days, today included.")] = 1,
    team: Annotated[str, typer.Option("--team", metavar="NAME", help="Only this team.")] = "",
    config: ConfigOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """What each team was billed, and what its calls would have cost without us."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    since = _text(today - timedelta(days=days - 1))
    rows = _on_store(_settings(config, db), lambda store: store.usage(since))
    rows = [row for row in rows if not team or row.tenant == f"team:{team}"]
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    table = Table("team")
    for name in ("requests", "input", "cached", "output", "billed", "without us"):
        table.add_column(name, justify="right")
    for row in rows:
        figures = (row.requests, row.input, row.cached, row.output)
        table.add_row(row.tenant.removeprefix("team:"), *(f"{figure:,}" for figure in figures),
                      f"${row.cost:,.2f}", f"${row.cost_direct:,.2f}")  # fmt: skip
    Console().print(table)


# -- common ----------------------------------------------------------------------------------------


def _settings(config: Path | None, db: str | None) -> Config:
    return load_config(config, {"store.url": db} if db else None)


def _check_team(settings: Config, team: str) -> None:
    if team not in settings.teams:
        known = ", ".join(settings.teams) or "none"
        raise NotFoundError(
            f"there is no team {team!r} in the configuration; there are: {known}",
            hint=f"Write [teams.{team}] into it, and name the file with --config.",
        )


def _made(team: str) -> tuple[ClientKeyRow, str]:
    key = make_key(team, secrets.token_bytes(SECRET_BYTES))
    hash = hash_key(key)
    return ClientKeyRow(key_id(hash), team, hash, _moment()), key


def _print_key(row: ClientKeyRow, key: str) -> None:
    typer.echo(key)
    typer.echo(f"key {row.id} of team {row.team}; it is not kept and cannot be shown again", err=True)


async def _find(store: Store, id: str) -> ClientKeyRow:
    found = [row for row in await store.client_keys() if row.id.startswith(id)]
    if len(found) != 1:
        said = "no key" if not found else "more than one key"
        raise NotFoundError(f"{said} has an id that begins with {id!r}", hint="See: undercliff keys list.")
    return found[0]


def _on_store(settings: Config, do: Callable[[Store], Awaitable[T]]) -> T:
    """Open the store, do it, close it. Raises `StoreError`."""

    async def run() -> T:
        section = settings.store
        store = open_store(section.url, secret_file=Path(section.secret_file))  # no spool: it must be written now
        await store.open()
        try:
            return await do(store)
        finally:
            await store.aclose()

    return asyncio.run(run())


def _moment(hours: float = 0.0) -> str:
    return _text(datetime.now(UTC) + timedelta(hours=hours))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
