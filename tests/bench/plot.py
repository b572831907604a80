"""A bar chart as one SVG text, logarithmic, readable in light and dark. Only what the benches need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, ROW, LEFT, RIGHT = 760, 16, 150, 90
OURS = "undercliff"


def bars(title: str, rows: Sequence[tuple[str, str, float]], unit: str = "µs") -> str:
    """One bar a row of (group, name, value), grouped as they come; bar lengths follow the logarithm of the value."""
    values = [value for _, _, value in rows if value > 0]
    low, high = math.log10(min(values)) - 0.3, math.log10(max(values))
    parts: list[str] = []
    y, group = 34, ""
    for name_of_group, name, value in rows:
        if name_of_group != group:
            group = name_of_group
            y += 12
            parts.append(f'<text x="8" y="{y + 8}" class="g">{escape(group)}</text>')
            y += ROW
        share = (math.log10(value) - low) / (high - low) if value > 0 else 0.0
        length = max(1.0, share * (WIDTH - LEFT - RIGHT))
        style = "o" if name.startswith(OURS) else "b"
        parts.append(f'<text x="{LEFT - 6}" y="{y + 11}" class="n">{escape(name)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="{ROW - 5}" class="{style}"/>')
        parts.append(f'<text x="{LEFT + length + 5:.1f}" y="{y + 11}" class="v">{value:,.0f} {unit}</text>')
        y += ROW
    style = (
        "text{font:11px system-ui,sans-serif;fill:#444}.g{font-weight:600}.n{text-anchor:end}.t{font-size:14px}"
        ".b{fill:#9aa5b1}.o{fill:#d9480f}@media(prefers-color-scheme:dark){text{fill:#ddd}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>"
        f'<text x="8" y="20" class="t">{escape(title)} (logarithmic)</text>{"".join(parts)}</svg>\n'
    )
