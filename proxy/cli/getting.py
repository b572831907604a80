"""`undercliff get`: what would go into a budget, and why. Changes nothing in the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import proxy
from proxy.cli.render import shorten
from proxy.cli.running import ConfigOption
from proxy.cli.stores import DbOption, store_place
from proxy.core.display import visible
from proxy.library.window import ManifestEntry, Place, Window, WindowManifest

SHOWN = 8
"""Items listed of each part without --explain."""
_PARTS: Sequence[tuple[Place, str]] = (
    ("pinned", "pinned: whole, in every window"),
    ("recent", "recent: whole"),
    ("relevant", "relevant: in part"),
    ("summary", "summaries"),
    ("stub", "stubs: one line, the rest by its id"),
    ("dropped", "dropped"),
)
_FIXED = 12 + 12 + 8 + 6 + 6  # the columns beside the words, with their gaps


def get(
    budget: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="So many tokens of messages, tools apart.")],
    query: Annotated[str, typer.Option(metavar="TEXT", help="Words that count more, taken literally.")] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="Whose tokens; by default the conversation's.")] = "",
    conversation: Annotated[
        str, typer.Option(metavar="ID", help="A conversation's id, the start of it, or a name; the newest by default.")
    ] = "",
    policy: Annotated[str, typer.Option(metavar="NAME", help="Who chooses.")] = "greedy",
    explain: Annotated[bool, typer.Option("--explain", help="List every item, and each reason in full.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the messages and the manifest as JSON.")] = False,
    db: DbOption = None,
    config: ConfigOption = None,
) -> None:
    """Show the most useful messages of a conversation that fit a budget."""
    name = conversation or None
    with proxy.open_store(store_place(config, db), policy=policy) as store:
        asked = model or store.model_of(name) or "any"
        window = store.context_get(budget, model=asked, query=query or None, conversation=name, remember=False)
    if json:
        typer.echo(orjson.dumps(_values(window), option=orjson.OPT_INDENT_2).decode())
    else:
        show_block(window.manifest, is_explained=explain)


def show_block(manifest: WindowManifest, *, is_explained: bool) -> None:
    """The window by parts, each item with its tokens, its score and why it stands there."""
    console = Console(highlight=False, markup=False, emoji=False)
    share = 100 * manifest.used // manifest.budget
    console.print(f"conversation  {manifest.conversation}, {manifest.model}, chosen by {manifest.policy}")
    if manifest.query:
        console.print(f"query         {shorten(visible(manifest.query), console.width - 14)}")
    console.print(
        f"budget        {manifest.budget:,} tokens: {manifest.used:,} used ({share} %), {manifest.tokens_in:,} in full"
    )
    if manifest.reason:
        console.print(f"why           {manifest.reason}")
    for place, title in _PARTS:
        entries = [entry for entry in manifest.entries if entry.place == place]
        if not entries:
            continue
        tokens = sum(entry.tokens for entry in entries)
        console.print()
        full = sum(entry.full_tokens for entry in entries)
        figure = f"{full:,} tokens in full" if not tokens else f"{tokens:,} tokens"
        console.print(f"{title} ({_count(len(entries))}, {figure})")
        listed = _best(place, entries, is_explained)
        console.print(_table(listed, console.width, is_explained=is_explained))
        if len(listed) < len(entries):
            console.print(f"  … {len(entries) - len(listed):,} more: --explain lists them all")


def _count(items: int) -> str:
    return "1 item" if items == 1 else f"{items:,} items"


def _best(place: Place, entries: Sequence[ManifestEntry], is_explained: bool) -> Sequence[ManifestEntry]:
    """Those to list: all, or the newest of what is whole, else the highest scores."""
    if is_explained or len(entries) <= SHOWN:
        return entries
    if place in ("pinned", "recent", "summary"):
        return entries[-SHOWN:]
    return sorted(entries, key=lambda entry: -entry.score)[:SHOWN]


def _table(entries: Sequence[ManifestEntry], width: int, *, is_explained: bool) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for entry in entries:
        words = visible(" · ".join(_words(entry)))
        table.add_row(
            f"  {entry.id or '-':12}",
            shorten(entry.tool or entry.role, 12),
            f"{entry.tokens or entry.full_tokens:,}",
            f"{entry.score:.2f}" if entry.score else "",
            Text(words if is_explained else shorten(words, max(20, width - _FIXED))),
        )
    return table


def _words(entry: ManifestEntry) -> Iterator[str]:
    """Why it stands where it stands, and what it is."""
    reason = f"{entry.kept:,} of {entry.segments:,} lines" if entry.kept else entry.reason
    yield from (
        (entry.source or entry.preview, reason) if entry.place == "pinned" else (reason, entry.source or entry.preview)
    )


def _values(window: Window) -> dict[str, object]:
    return {"items": list(window.items), "manifest": asdict(window.manifest)}
