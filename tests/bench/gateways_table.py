"""The figures of the gateway bench as a table for the terminal, and as the table and the plot of the README."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.plot import bars
from tests.support.serve import ROOT

PLOT = "tests/bench/gateways.svg"
SHOWN = {
    "small": "small request",
    "440 KB, same": "440 KB, again",
    "440 KB, growing": "440 KB, growing",
    "stream, 16 at once, per chunk": "streamed chunk",
}
"""Cases in the README, by the names they have there."""
PLACE = re.compile(r"(<!-- gateways: begin -->\n).*?(<!-- gateways: end -->)", re.S)


@dataclass(frozen=True, slots=True)
class Figure:
    """One proxy in one case, a value a round. Times in microseconds but `p50` and `p99` in milliseconds."""

    case: str
    name: str
    cpu: tuple[float, ...]  # per request, or per chunk
    p50: tuple[float, ...]
    p99: tuple[float, ...]
    rate: tuple[float, ...]  # requests a second
    rss_mb: float
    failed: int


def table(figures: Sequence[Figure]) -> str:
    """Medians over the rounds; latencies are what is added to the direct call of the same case."""
    direct = {f.case: f for f in figures if f.name == "direct"}
    lines = [
        f"{'case':38}{'proxy':18}{'CPU µs (spread)':>26}{'× plain':>9}{'+p50 ms':>9}{'+p99 ms':>9}{'req/s':>8}{'MB':>6}"
    ]
    base = {f.case: statistics.median(f.cpu) for f in figures if f.name == "plain"}
    for f in figures:
        if f.name == "direct":
            continue
        cpu = statistics.median(f.cpu)
        spread = f"{cpu:,.0f} ({min(f.cpu):,.0f}-{max(f.cpu):,.0f})"
        p50 = statistics.median(f.p50) - statistics.median(direct[f.case].p50)
        p99 = statistics.median(f.p99) - statistics.median(direct[f.case].p99)
        ratio = cpu / base[f.case] if base.get(f.case) else 0.0
        note = f"  {f.failed} FAILED" if f.failed else ""
        lines.append(
            f"{f.case:38}{f.name:18}{spread:>26}{ratio:>9.2f}{p50:>9.2f}{p99:>9.2f}"
            f"{statistics.median(f.rate):>8,.0f}{f.rss_mb:>6.0f}{note}"
        )
    return "\n".join(lines)


def readme_table(figures: Sequence[Figure]) -> str:
    """Milliseconds of CPU a request or chunk, in how many times the plain pass-through; memory after all of it."""
    cpu = {(f.name, f.case): statistics.median(f.cpu) for f in figures if not f.failed}
    memory = {f.name: f.rss_mb for f in figures if f.case in SHOWN}
    names = [name for name in memory if name != "direct"]
    lines = [f"| CPU in ms (times plain) | {' | '.join(SHOWN.values())} | MB |", f"|---|{'---|' * len(SHOWN)}---|"]
    for name in names:
        cells = [_cell(cpu.get((name, case)), cpu.get(("plain", case))) for case in SHOWN]
        lines.append(f"| {name} | {' | '.join(cells)} | {memory[name]:.0f} |")
    return "\n".join(lines)


def _cell(value: float | None, plain: float | None) -> str:
    if value is None:
        return "fails"
    return f"{value / 1000:.2f}" + (f" ({value / plain:.1f})" if plain else "")


def write_readme(figures: Sequence[Figure], root: Path = ROOT) -> None:
    """Put the table between its marks and draw the plot beside this module."""
    rows = [(SHOWN[f.case], f.name, statistics.median(f.cpu)) for f in figures if _is_drawn(f)]
    (root / PLOT).write_text(
        bars("CPU a request, or a chunk", sorted(rows, key=lambda row: list(SHOWN.values()).index(row[0])))
    )
    readme = root / "README.md"
    text = f"{readme_table(figures)}\n\n![CPU a request of every gateway]({PLOT})\n"
    readme.write_text(PLACE.sub(lambda found: found[1] + text + found[2], readme.read_text()))


def _is_drawn(figure: Figure) -> bool:
    return figure.name != "direct" and figure.case in SHOWN and not figure.failed
