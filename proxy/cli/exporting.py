"""Commands that carry conversations out of a store and back into one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from proxy.audit.exporting import stream, write_files
from proxy.audit.reading import lines_of
from proxy.audit.restore import restore
from proxy.audit.tables import Kind
from proxy.banner import product_version
from proxy.cli.running import ConfigOption
from proxy.cli.stores import (
    DbOption,
    KeyOption,
    ModelOption,
    OutcomeOption,
    SinceOption,
    TenantOption,
    UntilOption,
    complete,
    filters_of,
    key_of,
    on_file,
    progress_bar,
    store_place,
)
from proxy.store.archive import Archive

FormatOption = Annotated[
    Literal["jsonl", "chat", "csv", "html", "parquet"],
    typer.Option("--format", help="jsonl is complete and can be imported; chat is for fine-tuning."),
]


def export(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[CONVERSATION]...", help="Ids, or starts of them.")
    ] = None,
    format: FormatOption = "jsonl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file, named when it is whole; standard output without it.")
    ] = None,
    tenant: TenantOption = "",
    model: ModelOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    outcome: OutcomeOption = "",
    rows: Annotated[
        Literal["items", "exchanges", "forms"], typer.Option("--rows", help="Which rows CSV on standard output has.")
    ] = "items",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a jsonl export that was broken off.")] = False,
    db: DbOption = None,
    config: ConfigOption = None,
) -> None:
    """Write conversations out. Filters choose conversations by their calls; each is written whole."""
    wanted = filters_of(ids or [], tenant, model, since, until, outcome)
    if resume and (output is None or format != "jsonl"):
        raise typer.BadParameter("--resume needs --output, and --format jsonl: every other format starts anew")
    if format == "parquet" and output is None:
        raise typer.BadParameter("parquet needs --output")
    with Archive(store_place(config, db)) as archive:
        wanted = complete(archive, wanted)
        version = product_version()
        if output is None:
            kind: Kind = rows
            for piece in stream(archive, format, wanted, version=version, kind=kind):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        with progress_bar() as bar, on_file(output, "write"):
            task = bar.add_task("exporting", total=archive.size(wanted)[1])
            written = write_files(
                archive, format, wanted, output, version=version, is_resumed=resume,
                on_rows=lambda count: bar.advance(task, count),
            )  # fmt: skip
    for path in written:
        typer.echo(f"{path}  {path.stat().st_size:,} bytes", err=True)


def import_(
    source: Annotated[Path, typer.Argument(metavar="EXPORT", help="A file that export wrote, in the format jsonl.")],
    db: Annotated[Path, typer.Option("--db", metavar="PATH", help="The new store; it must hold nothing yet.")],
    key: KeyOption = None,
) -> None:
    """Bring an export back into an empty store. What does not hold in every row is refused.

    With --key, signatures are checked too, and the new store keeps that key.
    """
    with on_file(source, "read"), source.open("rb") as file, progress_bar() as bar:
        task = bar.add_task("importing", total=source.stat().st_size)
        rows = restore(lines_of(file), db, secret=key_of(key), on_bytes=lambda size: bar.advance(task, size))
    typer.echo(f"{rows:,} rows in {db}", err=True)
