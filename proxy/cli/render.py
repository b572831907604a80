"""What the views print for people, readable in 80 columns. Shows text without letting it drive the terminal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.core.display import visible
from proxy.core.records import ConversationSummary
from proxy.core.slices import Slice, count_lines, split_lines
from proxy.views import FoldLine, ItemLine, ItemShown, Shown, WindowShown

_PREVIEW_LINES = 8
_PREVIEW_CHARS = 600
_CONVERSATION_COLUMNS = 12 + 16 + 6 + 7 + 7 + 8 + 6  # what the figures of a conversation take, with the gaps


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` terminal cells, marked where it was cut."""
    cut = Text(text)
    cut.truncate(width, overflow="ellipsis")
    return cut.plain


def conversations(found: Sequence[ConversationSummary]) -> None:
    """One line a conversation, newest first."""
    if not found:
        typer.echo("no conversations yet")
        return
    console = _console()
    room = max(12, console.width - _CONVERSATION_COLUMNS)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("id", no_wrap=True)
    table.add_column("updated", no_wrap=True)
    for name in ("calls", "input", "saved", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("first words")
    for one in found:
        table.add_row(
            one.id,
            short_time(one.updated_at),
            str(one.exchanges),
            short_count(one.input),
            short_count(one.saved_tokens),
            f"${one.cost:.2f}",
            Text(shorten(visible(" ".join(one.first_text.split())), room)),
        )
    console.print(table)


def conversation(shown: Shown, *, is_full: bool) -> None:
    """The items of a view, long texts cut unless `is_full`."""
    console = _console()
    one = shown.conversation
    console.print(
        Text(
            f"conversation {one.id} · {one.model} · {_count(one.exchanges, 'call')} · {_count(one.items, 'item')}",
            style="bold",
        )
    )
    figures = f"input {one.input:,} ({one.cached:,} cached), output {one.output:,}, ${one.cost:.4f}"
    console.print(Text(f"{figures}, {one.saved_tokens:,} tokens saved"))
    for fold in shown.folds:
        console.print(Text(visible(_fold(fold))))
    if shown.summaries.asked:
        made = shown.summaries
        console.print(
            Text(
                f"summaries, apart from that: {made.asked} asked for, {made.good} good, {made.input:,} input, "
                f"{made.output:,} output, ${made.cost:.4f}"
            )
        )
    others = [branch for branch in shown.branches if branch.id != shown.branch]
    if shown.branch:
        console.print(Text(f"{shown.view}'s view of branch {shown.branch}; {len(others)} more"))
    elif len(others) > 1:
        console.print(Text(f"all {len(others)} branches"))
    for item in shown.items:
        _item(console, item, is_full=is_full)
    if not shown.items:
        console.print(Text("\n(nothing here)"))


def _fold(fold: FoldLine) -> str:
    """One compaction: what called for it, what it did, what stands for the rest."""
    told = f", {fold.told} of {fold.parts} parts by a model" if fold.told else ""
    cost = f", ${fold.cost:.4f}" if fold.cost is not None else ""
    return (
        f"compacted {short_time(fold.created_at)} by {fold.trigger} at {fold.figure:,} billed: "
        f"{fold.tokens_before:,} to {fold.tokens_after:,} tokens, "
        f"summary {fold.summary} for {fold.covered:,} items{told}{cost}"
    )


def _item(console: Console, item: ItemLine, *, is_full: bool) -> None:
    label = item.role if item.kind == "message" else item.kind
    form = item.form if item.form != "full" else ""
    notes = [item.source, form, "pinned" if item.is_pinned else "", "archived" if item.is_summarized else ""]
    notes.append(f"again from {item.origin}" if item.origin else "")
    head = " · ".join(visible(part) for part in (item.id, label, *notes) if part)
    console.print(Text(f"\n{head}", style="bold"))
    lines = split_lines(item.text)
    body = lines if is_full else lines[:_PREVIEW_LINES]
    text = "\n".join(body)
    if not is_full and len(text) > _PREVIEW_CHARS:
        text = text[:_PREVIEW_CHARS]
    console.print(Text(visible(text)))
    if len(text) < len("\n".join(lines)):
        left = (
            count_lines(len(lines) - len(body))
            if len(lines) > len(body)
            else f"{len(item.text) - len(text):,} characters"
        )
        console.print(Text(f"... {left} more: undercliff expand {item.id}", style="dim"))


def window(shown: WindowShown, *, is_explained: bool) -> None:
    """What went out; with every item and its reason when explained."""
    console = _console()
    console.print(Text(f"window {shown.id} · {shown.model} · {shown.policy}", style="bold"))
    saved = shown.tokens_in - shown.tokens_out
    rows = [
        ("conversation", f"{shown.conversation}, branch {shown.branch}"),
        ("sent", f"{short_time(shown.created_at)}, exchange {shown.exchange}, attempt {shown.attempt}"),
        ("tokens", f"{shown.tokens_in:,} from the client, {shown.tokens_out:,} sent, {saved:,} saved (estimates)"),
        ("billed", _billed(shown)),
        ("bytes", f"{shown.out_bytes:,}, sha256 {shown.out_hash[:16]}..."),
        ("changed", _change(shown)),
        ("forms", ", ".join(f"{count} {form}" for form, count in Counter(e.form for e in shown.entries).items())),
    ]
    for name, value in rows:
        console.print(Text(f"  {name:<13} {visible(value)}"))
    if not is_explained:
        console.print(Text("\n--explain gives every item's reason, --render the exact bytes", style="dim"))
        return
    console.print(_entries(shown))


def _billed(shown: WindowShown) -> str:
    if not shown.outcome:
        return "no outcome recorded"
    if not shown.billed_input:
        return f"nothing reported ({shown.outcome}, status {shown.status})"
    cost = "" if shown.cost is None else f", ${shown.cost:.4f}"
    return f"{shown.billed_input:,} input ({shown.billed_cached:,} cached), {shown.billed_output:,} output{cost}"


def _change(shown: WindowShown) -> str:
    if not shown.reason and shown.first_change < 0:
        return "no: the last window and what is new"
    place = f" from item {shown.first_change}" if shown.first_change >= 0 else ""
    return f"{shown.reason or 'the client changed its list'}{place}"


def _entries(shown: WindowShown) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("item", no_wrap=True)
    table.add_column("form", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("why")
    for entry in shown.entries:
        score = f"{entry.score:.2f}" if entry.score else ""
        reason = entry.reason or ("as sent" if entry.form == "full" else "")
        table.add_row(str(entry.index), entry.item, entry.form, f"{entry.tokens:,}", score, Text(visible(reason)))
    return table


def original(item: ItemShown, cut: Slice | None) -> None:
    """The text on stdout, ready for a pipe; what was left out on stderr."""
    clean = visible if sys.stdout.isatty() else str
    if cut is None:
        typer.echo(clean(item.text), nl=not item.text.endswith("\n"))
        return
    for index, span in enumerate(cut.spans):
        if cut.matches is not None and index:
            typer.echo("--")
        for number, line in enumerate(span.lines, span.first):
            typer.echo(clean(f"{number:>6}  {line}" if cut.matches is not None else line))
    note = cut.left_out
    if cut.matches is not None:
        note = f"{count_lines(cut.matches)} matching; {note}" if note else f"{count_lines(cut.matches)} matching"
    if note:
        typer.echo(f"({note})", err=True)


def short_time(stamp: str) -> str:
    """`2026-01-31 14:05` of an ISO timestamp; UTC, as stored."""
    return stamp[:16].replace("T", " ")


def short_count(number: int) -> str:
    """`14.2K`: three figures are enough in a table."""
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "K")):
        if number >= limit:
            return f"{number / limit:.1f}{unit}"
    return str(number)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)
