from __future__ import annotations

import io

from rich.console import Console

from proxy.demo.figures import Arm, Figures, Kept, Row
from proxy.demo.view import Board, show_pointers, show_totals

ROWS = (
    Row(1, 1, "search", 900, 900, 0.01, 0.01),
    Row(2, 2, "query", 30_000, 9_000, 0.2, 0.02, is_direct_above=True, is_rewrite=True),
    Row(3, 3, "nothing more", 31_000, 8_000, 0.0, 0.02, direct_error="too long", is_recovered=True),
)


def make_figures(found: int = 9, errors: int = 0) -> Figures:
    direct = Arm(20, 1, 100_000, 90_000, 500, 0.8, 7, 0, 0, 30_000)
    through = Arm(20, errors, 60_000, 50_000, 500, 0.4, 0, 2, 5, 26_000)
    kept = Kept(9, found, 10, 1, 4, 20, is_window_proven=True)
    return Figures(direct, through, kept, 1, 1, {"port": True, "rule": False}, 3.0)


def test_plain_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100)
    board = Board(console)
    with board.showing():
        for row in ROWS:
            board.add(row)
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + len(ROWS)
    assert "30,000" in lines[2] and "9,000" in lines[2] and "$0.210" in lines[2] and "window reduced" in lines[2]
    assert "overflow recovered" in lines[3] and "without us: refused" in lines[3]
    assert "\x1b" not in out.getvalue()


def test_live_table_on_a_terminal() -> None:
    out = io.StringIO()
    board = Board(Console(file=out, width=140, height=40, force_terminal=True))
    with board.showing():
        for row in ROWS:
            board.add(row)
    assert "sent to the model" in out.getvalue() and "overflow recovered" in out.getvalue()


def test_totals_and_pointers() -> None:
    out = io.StringIO()
    console = Console(file=out, width=140)
    show_totals(console, make_figures())
    show_pointers(console)
    text = out.getvalue()
    assert "(50%)" in text and "9 of 9 messages" in text and "port yes, rule no" in text
    for name in ("Codex", "opencode", "aider", "Cline", "Continue", "Goose", "LangChain", "Agents SDK"):
        assert name in text
