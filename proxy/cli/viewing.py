"""Commands that look into the store. They change nothing; tables are for people, --json is for programs."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import orjson
import typer

from proxy import hindsight, views
from proxy.cli import render, render_past
from proxy.cli.running import ConfigOption
from proxy.cli.stores import (
    DbOption,
    ModelOption,
    OutcomeOption,
    SinceOption,
    TenantOption,
    UntilOption,
    filters_of,
    store_place,
)
from proxy.config import load_config
from proxy.core.redaction import redact
from proxy.core.slices import Slice, slice_lines, slice_query
from proxy.errors import NotFoundError
from proxy.store.archive import Archive
from proxy.store.base import Store
from proxy.store.listing import listed
from proxy.store.open import open_store

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Result = TypeVar("Result")


def conversations(
    db: DbOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    limit: Annotated[int, typer.Option(min=1, help="Show this many, newest first.")] = 50,
    tenant: TenantOption = "",
    model: ModelOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    outcome: OutcomeOption = "",
) -> None:
    """List conversations with what they cost and saved. The filters are those of export."""
    wanted = filters_of([], tenant, model, since, until, outcome)
    if wanted.is_open:
        found = _read(config, db, lambda store: store.conversations(limit=limit))
    else:
        with Archive(store_place(config, db)) as archive:
            found = archive.read(lambda connection: listed(connection, wanted, limit))
    if json:
        _print_json(found)
    else:
        render.conversations(found)


def show(
    conversation: Annotated[str, typer.Argument(help="A conversation's id, or the start of it.")],
    view: Annotated[
        Literal["user", "model", "archive"],
        typer.Option(help="user: every message; model: what the model sees; archive: what compaction put away."),
    ] = "user",
    branch: Annotated[str, typer.Option(metavar="ID", help="One branch of it; the newest by default.")] = "",
    at: Annotated[
        str, typer.Option(metavar="TURN", help="As it was then: a call's number from 1, or an exchange or window id.")
    ] = "",
    full: Annotated[bool, typer.Option("--full", help="Print texts whole.")] = False,
    db: DbOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show a conversation, in one of three views."""
    if at and branch:
        raise typer.BadParameter("a turn has its own branch: give --at or --branch, not both")
    if at:
        shown = _read(config, db, lambda store: hindsight.gather_at(store, conversation, view, at))
    else:
        shown = _read(config, db, lambda store: views.gather(store, conversation, view, branch))
    if json:
        _print_json(shown)
    else:
        render.conversation(shown, is_full=full)


def window(
    id: Annotated[str, typer.Argument(help="A window, an exchange, or a conversation for its last window.")],
    explain: Annotated[bool, typer.Option("--explain", help="Say of every item why it has its form.")] = False,
    rendered: Annotated[bool, typer.Option("--render", help="Write the exact bytes that went out.")] = False,
    diff: Annotated[str, typer.Option(metavar="ID", help="Say what another window has differently, and why.")] = "",
    db: DbOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show what one request sent to the model, and why."""
    if rendered:
        sys.stdout.buffer.write(_read(config, db, lambda store: _render(store, id)))
        sys.stdout.buffer.flush()
        return
    if diff:
        compared = _read(config, db, lambda store: _compare(store, id, diff))
        if json:
            _print_json(compared)
        else:
            render_past.compared(compared)
        return
    shown = views.show_window(_read(config, db, lambda store: views.find_window(store, id)))
    if json:
        _print_json(shown)
    else:
        render.window(shown, is_explained=explain)


def missing(
    window: Annotated[str, typer.Argument(help="A window, an exchange, or a conversation for its last window.")],
    text: Annotated[str, typer.Argument(help="What to look for, letter by letter but for case.")],
    db: DbOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say which items hold a text, and in which form a window served them."""
    found = _read(config, db, lambda store: _holders(store, window, text))
    if json:
        _print_json(found)
    else:
        render_past.holders(found)


def expand(
    item: Annotated[str, typer.Argument(help="The id that a stub names.")],
    lines: Annotated[str, typer.Option(metavar="A-B", help="Only these lines, counted from 1.")] = "",
    query: Annotated[str, typer.Option(metavar="TEXT", help="Only lines that hold this text, and those around.")] = "",
    context: Annotated[int, typer.Option(min=0, help="How many lines around a match.")] = 2,
    raw: Annotated[bool, typer.Option("--raw", help="Write the message's bytes as the client sent them.")] = False,
    db: DbOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Print the original behind an id, whole or in part."""
    span = parse_lines(lines) if lines else None
    if span and query:
        raise typer.BadParameter("give --lines or --query, not both")
    found = _read(config, db, lambda store: views.fetch_item(store, item))
    if raw:
        sys.stdout.buffer.write(found.data)
        sys.stdout.buffer.flush()
        return
    cut: Slice | None = None
    if span:
        cut = slice_lines(found.text, *span)
    elif query:
        cut = slice_query(found.text, query, context)
    if json:
        _print_json({"item": found, "slice": cut})
    else:
        render.original(found, cut)


def parse_lines(text: str) -> tuple[int, int]:
    """`A-B`, `A-`, `-B` or `A`."""
    match = re.fullmatch(r"(\d*)(-?)(\d*)", text.strip())
    if match is None or not (match[1] or match[3]):
        raise typer.BadParameter(f"{text!r} is no range of lines; write --lines 10-40")
    first = int(match[1] or 1)
    last = int(match[3]) if match[3] else sys.maxsize if match[2] else first
    if first < 1 or last < first:
        raise typer.BadParameter(f"{text!r} is an empty range of lines; they count from 1")
    return first, last


async def _compare(store: Store, first: str, second: str) -> hindsight.WindowsCompared:
    return hindsight.compare_windows(await views.find_window(store, first), await views.find_window(store, second))


async def _holders(store: Store, window: str, text: str) -> list[hindsight.Holder]:
    return await hindsight.find_holders(store, await views.find_window(store, window), text)


async def _render(store: Store, id: str) -> bytes:
    return await views.render_window(store, await views.find_window(store, id))


def _read(config: Path | None, db: str | None, query: Callable[[Store], Awaitable[Result]]) -> Result:
    """Open the store, ask it one thing, close it."""
    settings = load_config(config, {"store.url": db} if db else None)
    url = settings.store.url
    path = Path(url.removeprefix("sqlite:///")).expanduser()
    if ("://" not in url or url.startswith("sqlite:")) and not path.exists():
        raise NotFoundError(
            f"there is no store at {path}", hint="Run undercliff serve first, or name a store with --db."
        )
    if not settings.store.enabled:
        raise NotFoundError(f"the store {redact(url)} is switched off (store.enabled)", hint="Name a store with --db.")

    async def ask() -> Result:
        store = open_store(url)
        await store.open()
        try:
            return await query(store)
        finally:
            await store.aclose()

    return asyncio.run(ask())


def _print_json(value: Any) -> None:
    typer.echo(orjson.dumps(value, default=_json_bytes, option=orjson.OPT_INDENT_2).decode())


def _json_bytes(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise TypeError(f"no JSON for {type(value).__name__}")
