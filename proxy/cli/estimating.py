"""`estimate`: what somebody's own transcripts cost, and would have cost. Needs no key, no server and no store."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from policies import registry
from proxy.cli.stores import progress_bar
from proxy.errors import ConfigError
from proxy.evaluation.estimate.replay import Estimate
from proxy.evaluation.estimate.replay import estimate as play
from proxy.evaluation.estimate.report import as_json, text
from proxy.evaluation.estimate.transcripts import Transcript, read_lines, read_path


def estimate(
    files: Annotated[list[str], typer.Argument(metavar="FILES", help="Transcripts, folders of them, or - for input.")],
    model: Annotated[str, typer.Option(metavar="NAME", help="Whose prices and window; else the file's own.")] = "",
    policy: Annotated[str, typer.Option(metavar="NAME", help="How the window is chosen.")] = "sticky",
    as_document: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False,
    is_strict: Annotated[bool, typer.Option("--strict", help="Refuse a file with a line that is no JSON.")] = False,
) -> None:
    """Say what transcripts of agents cost, and what they would have cost through the proxy.

    Takes a message a line, request bodies, Codex and opencode session files, and what export wrote.
    """
    if policy not in registry.names():
        raise ConfigError(f"there is no policy {policy!r}", hint=f"There are: {', '.join(registry.names())}.")
    talks = [one for name in files for one in _read(name, is_strict)]
    with progress_bar() as bar:
        found = _played(talks, model, policy, bar)
    typer.echo(json.dumps(as_json(found), indent=1) if as_document else text(found))


def _read(name: str, is_strict: bool) -> list[Transcript]:
    if name == "-":
        return read_lines("standard input", sys.stdin.buffer, is_strict=is_strict)
    return read_path(Path(name), is_strict=is_strict)


def _played(talks: Sequence[Transcript], model: str, policy: str, bar: Progress) -> list[Estimate]:
    calls = sum(one.calls for one in talks)
    if not calls:
        raise ConfigError("no model was asked in these transcripts", hint="There must be assistant messages in them.")
    task = bar.add_task("estimating", total=calls)
    return [play(one, model=model, policy=policy, on_call=lambda: bar.advance(task)) for one in talks if one.calls]
