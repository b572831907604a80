"""Charts as SVG texts for the page: lines by budget, bars by price model, differences with their intervals.

Colours are classes `c0` to `c7` of the page, so that they follow light and dark. Every mark has a title with its
figure, and the page has the same figures in tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from proxy.evaluation.statistics import Interval

WIDTH = 560
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 14, 26
COLOURS = 8
MARKS: tuple[Callable[[float, float], str], ...] = (
    lambda x, y: f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
    lambda x, y: f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"',
    lambda x, y: f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z"',
    lambda x, y: f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5-5z"',
)
"""By policy, so that lines differ without colour, as on paper."""


@dataclass(frozen=True, slots=True)
class Series:
    """One policy's figures, in the order of the labels; None where there is none. `colour` 0 to 7."""

    name: str
    values: tuple[float | None, ...]
    colour: int


def lines(title: str, labels: Sequence[str], series: Sequence[Series], height: int = 230) -> str:
    """Shares from 0 to 1, a line a policy over the budgets."""
    step = (WIDTH - LEFT - RIGHT) / max(1, len(labels))
    places = [LEFT + step * (number + 0.5) for number in range(len(labels))]

    def y(value: float) -> float:
        return TOP + (1 - value) * (height - TOP - BOTTOM)

    parts = list(_grid(height, [(y(tick / 4), f"{25 * tick} %") for tick in range(5)]))
    parts += [_label(x, height - 8, label) for x, label in zip(places, labels, strict=True)]
    for one in series:
        points = [(x, y(value), value) for x, value in zip(places, one.values, strict=True) if value is not None]
        line = " ".join(f"{x:.1f},{at:.1f}" for x, at, _ in points)
        parts.append(f'<polyline class="s c{one.colour % COLOURS}" points="{line}"/>')
        for x, at, value in points:
            mark = MARKS[one.colour % len(MARKS)](x, at)
            parts.append(
                f'{mark} class="m c{one.colour % COLOURS}">{_title(f"{one.name}: {100 * value:.1f} %")}</{_tag(mark)}>'
            )
    return _svg(title, height, parts)


def bars(title: str, groups: Sequence[str], series: Sequence[Series], height: int = 250) -> str:
    """Shares of the direct bill, a group of bars a price model. What is above twice the direct bill is cut."""
    most = 2.0
    step = (WIDTH - LEFT - RIGHT) / max(1, len(groups))
    thick = 0.8 * step / max(1, len(series))

    def y(value: float) -> float:
        return TOP + (1 - value / most) * (height - TOP - BOTTOM)

    parts = list(_grid(height, [(y(tick / 2), f"{tick / 2:g}") for tick in range(5)]))
    for number, group in enumerate(groups):
        start = LEFT + step * (number + 0.1)
        parts.append(_label(LEFT + step * (number + 0.5), height - 8, group))
        for place, one in enumerate(series):
            value = one.values[number]
            if value is None:
                continue
            x, top = start + place * thick, y(min(value, most))
            parts.append(
                f'<rect class="b c{one.colour % COLOURS}" x="{x:.1f}" y="{top:.1f}" width="{max(1.0, thick - 1):.1f}"'
                f' height="{y(0) - top:.1f}">{_title(f"{one.name}, {group}: {value:.2f} of direct")}</rect>'
            )
            if value > most:
                parts.append(f'<path class="cut" d="M{x:.1f} {top + 9:.1f}l{thick - 1:.1f} -4"/>')
    parts.append(f'<line class="one" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(1):.1f}" y2="{y(1):.1f}"/>')
    return _svg(title, height, parts)


def intervals(title: str, rows: Sequence[tuple[str, int, Interval]]) -> str:
    """Differences in points with what they lie between: a line each, with its label and colour."""
    height = 24 * len(rows) + 40
    left = 190
    most = max([0.1, *(max(abs(one.low), abs(one.high)) for _, _, one in rows)])

    def x(value: float) -> float:
        return left + (value / most + 1) / 2 * (WIDTH - left - RIGHT)

    parts = [f'<line class="one" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="8" y2="{height - 22}"/>']
    for tick in (-most, 0.0, most):
        anchor = "end" if tick == most else "start" if tick == -most else "middle"
        parts.append(f'<text x="{x(tick):.1f}" y="{height - 6}" text-anchor="{anchor}">{100 * tick:+.0f}</text>')
    for number, (label, colour, one) in enumerate(rows):
        y = 20 + 24 * number
        told = (
            f"{label}: {100 * one.value:+.1f} points, {100 * one.low:+.1f} to {100 * one.high:+.1f}, {one.pairs} tasks"
        )
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(label)}</text>')
        parts.append(
            f'<g class="c{colour % COLOURS}">{_title(told)}<line class="s" x1="{x(one.low):.1f}" x2="{x(one.high):.1f}"'
            f' y1="{y}" y2="{y}"/><circle class="m c{colour % COLOURS}" cx="{x(one.value):.1f}" cy="{y}" r="4"/></g>'
        )
    return _svg(title, height, parts)


def _grid(height: int, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    for y, label in ticks:
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{escape(text)}</text>'


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _tag(mark: str) -> str:
    return mark[1:].partition(" ")[0]


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
