"""The commands and how they fail: one line and a hint on stderr, exit code 2, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from proxy.banner import product_version
from proxy.cli.auditing import backup, forget, verify
from proxy.cli.exporting import export, import_
from proxy.cli.getting import get
from proxy.cli.moving import migrate_store
from proxy.cli.running import check_config, demo, serve, version
from proxy.cli.teams import keys, usage
from proxy.cli.viewing import conversations, expand, missing, show, window
from proxy.errors import UndercliffError

app = typer.Typer(
    name="undercliff",
    help="An OpenAI-compatible reverse proxy that gives agents an unlimited conversation over a bounded model window.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(serve, demo, conversations, show, get, window, expand, missing, export, import_),
    *(verify, forget, backup, migrate_store, usage, check_config, version),
)
for command in COMMANDS:
    app.command(command.__name__.rstrip("_").replace("_", "-"))(command)
app.add_typer(keys, name="keys")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"undercliff {product_version()}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """An OpenAI-compatible reverse proxy that gives agents an unlimited conversation over a bounded model window."""


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    try:
        app(arguments, prog_name="undercliff")
    except UndercliffError as error:
        typer.echo(f"undercliff: {error}", err=True)
        if error.hint:
            typer.echo(f"  {error.hint}", err=True)
        sys.exit(2)
