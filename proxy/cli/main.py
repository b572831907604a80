"""Where the command line begins, and how it fails: one line and a hint on stderr, exit code 2, never a traceback."""

from __future__ import annotations

import importlib
import sys

import typer

from proxy.errors import UndercliffError


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code."""
    words = sys.argv[1:] if arguments is None else arguments
    commands = importlib.import_module("proxy.cli.serving" if words[:1] == ["serve"] else "proxy.cli.commands")
    try:
        commands.app(words, prog_name="undercliff")
    except UndercliffError as error:
        typer.echo(f"undercliff: {error}", err=True)
        if error.hint:
            typer.echo(f"  {error.hint}", err=True)
        sys.exit(2)
