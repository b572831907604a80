"""The demo is the product's first impression: it must work from a clean machine, quickly, and tell the truth."""

from __future__ import annotations

import io
import json
import time

import pytest
from rich.console import Console

from proxy.demo.run import run


@pytest.fixture(scope="module")
def outcome() -> tuple[int, dict[str, object], float]:
    out = io.StringIO()
    started = time.monotonic()
    code = run(as_json=True, console=Console(file=out, width=200))
    return code, json.loads(out.getvalue()), time.monotonic() - started


def test_it_ends_well_and_soon(outcome: tuple[int, dict[str, object], float]) -> None:
    code, _, seconds = outcome
    assert code == 0
    assert seconds < 30


def test_every_word_is_kept(outcome: tuple[int, dict[str, object], float]) -> None:
    kept = outcome[1]["kept"]
    assert isinstance(kept, dict)
    assert kept["found"] == kept["messages"] > 80
    assert kept["is_window_proven"] is True


def test_the_bill_is_down_and_no_call_is_above_the_cliff(outcome: tuple[int, dict[str, object], float]) -> None:
    figures = outcome[1]
    direct, through = figures["direct"], figures["through"]
    assert isinstance(direct, dict) and isinstance(through, dict)
    assert direct["above_cliff"] > 10 and through["above_cliff"] == 0
    assert through["bill"] < 0.5 * direct["bill"]
    assert direct["calls"] == through["calls"] and through["errors"] == 0


def test_one_overflow_is_recovered_where_the_direct_run_dies(outcome: tuple[int, dict[str, object], float]) -> None:
    figures = outcome[1]
    assert figures["recovered"] == 1 and figures["direct_refusals"] == 1


def test_plain_output() -> None:
    out = io.StringIO()
    assert run(seed=8, console=Console(file=out, width=150)) == 0
    text = out.getvalue()
    assert "overflow recovered" in text and "Every word kept" in text and "OPENAI_BASE_URL" in text
