"""How the demo looks: a live table on a terminal, plain lines elsewhere, then the totals. Computes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.demo.figures import Figures, Row

BASE = "http://127.0.0.1:4272/v1"
POINTERS = (
    ("OpenAI SDKs, Agents SDK, pydantic-ai, Qwen Code", f"export OPENAI_BASE_URL={BASE}"),
    ("aider, LangChain, LlamaIndex", f"export OPENAI_API_BASE={BASE}"),
    ("Codex", f"codex -c openai_base_url={BASE}"),
    ("opencode", f'opencode.json: "provider": {{"openai": {{"options": {{"baseURL": "{BASE}"}}}}}}'),
    ("Cline", f"cline auth -p openai-compatible -b {BASE}"),
    ("Continue", f"config.yaml: apiBase: {BASE}"),
    ("Goose", f"export OPENAI_HOST={BASE.removesuffix('/v1')}"),
)


class Board:
    """Takes rows as they happen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: list[Row] = []
        self._live: Live | None = None

    @contextmanager
    def showing(self) -> Iterator[None]:
        if not self._console.is_terminal:
            self._console.print("turn  call  sent by the agent  sent to the model   billed without   with us")
            yield
            return
        with Live(self._table(), console=self._console, refresh_per_second=8) as self._live:
            yield

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if self._live is not None:
            self._live.update(self._table())
            return
        without, through = self._bills()
        line = f"{row.turn:4}  {row.call:4}  {row.sent:17,}  {row.seen:17,}  {without:>15}  {through:>8}  {_note(row)}"
        self._console.print(line.rstrip(), highlight=False, soft_wrap=True)

    def _bills(self) -> tuple[str, str]:
        return f"${sum(row.direct for row in self._rows):.3f}", f"${sum(row.through for row in self._rows):.3f}"

    def _table(self) -> Table:
        without, through = self._bills()
        table = Table(title="The same session twice: without us and through undercliff", title_justify="left")
        for name in ("turn", "call"):
            table.add_column(name, justify="right")
        table.add_column("model asks for")
        table.add_column("sent by the agent", justify="right")
        table.add_column("sent to the model", justify="right")
        table.add_column(f"billed without\n{without}", justify="right")
        table.add_column(f"with us\n{through}", justify="right")
        table.add_column("")
        room = max(5, self._console.height - 10)
        for row in self._rows[-room:]:
            table.add_row(
                str(row.turn),
                str(row.call),
                row.asked,
                Text(f"{row.sent:,}", style="red" if row.is_direct_above else ""),
                Text(f"{row.seen:,}", style="red" if row.is_through_above else "green"),
                "refused" if row.direct_error else f"${row.direct:.4f}",
                "refused" if row.through_error else f"${row.through:.4f}",
                _note(row),
            )
        return table


def _note(row: Row) -> str:
    notes = []
    if row.is_recovered:
        notes.append("overflow recovered")
    elif row.is_rewrite:
        notes.append("window reduced")
    if row.direct_error:
        notes.append("without us: refused")
    if row.through_error:
        notes.append("with us: refused")
    return ", ".join(notes)


def show_totals(console: Console, figures: Figures) -> None:
    direct, through, kept = figures.direct, figures.through, figures.kept
    console.print(
        f"\nTotals of the {direct.calls} calls that both got through."
        "\nThe provider is a model of one: its price cliff, at 27,200 tokens, is a tenth of a real one's.",
        highlight=False,
    )
    table = Table()
    table.add_column("")
    table.add_column("without us", justify="right")
    table.add_column("with us", justify="right")
    table.add_row("bill", f"${direct.bill:.3f}", f"${through.bill:.3f} ({figures.share:.0%})")
    table.add_row("input tokens", f"{direct.input:,}", f"{through.input:,}")
    table.add_row("of them cached", _share(direct.cached, direct.input), _share(through.cached, through.input))
    table.add_row("largest request", f"{direct.peak:,}", f"{through.peak:,}")
    table.add_row("calls above the cliff", f"{direct.above_cliff} of {direct.calls}", f"{through.above_cliff}")
    table.add_row("cache breaks", str(direct.breaks), str(through.breaks))
    table.add_row("changes of what was sent once", str(direct.tail_changes), str(through.tail_changes))
    table.add_row("refused for length", str(figures.direct_refusals), f"{through.errors} ({figures.recovered} unseen)")
    console.print(table)
    say = [
        f"Compactions: {kept.compactions}. Tool results reduced to one line: {kept.masked}.",
        f"Every word kept: {kept.found} of {kept.messages} messages read back from the store, compared byte for byte.",
        "The last window, rebuilt from the store, "
        + ("equals what the model got." if kept.is_window_proven else "DIFFERS from what the model got."),
        "Said early, still in the model's window at the end: "
        + ", ".join(f"{name} {'yes' if is_seen else 'no'}" for name, is_seen in figures.facts.items())
        + ".",
    ]
    for line in say:
        console.print(line, highlight=False)


def show_pointers(console: Console) -> None:
    console.print("\nStart it with [bold]undercliff serve[/bold], then point your agent at it:")
    for name, line in POINTERS:
        console.print(f"  {name:48} {line}", highlight=False, soft_wrap=True, markup=False)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
