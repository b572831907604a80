"""The root of the command line: makes an application of some commands. Knows none by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from proxy.banner import product_version

HELP = "An OpenAI-compatible reverse proxy that gives agents an unlimited conversation over a bounded model window."


def application(commands: Iterable[Callable[..., None]]) -> typer.Typer:
    """Each function is a command by its own name."""
    app = typer.Typer(
        name="undercliff",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for command in commands:
        app.command(command.__name__.rstrip("_").replace("_", "-"))(command)
    app.callback(help=HELP)(_options)
    return app


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"undercliff {product_version()}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """What stands before a command."""
