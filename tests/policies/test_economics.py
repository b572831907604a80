"""The arithmetic of a rewrite, against figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from policies.economics import (
    EconomicsOptions,
    break_cost,
    calls_to_break_even,
    decision_prices,
    is_rent_due,
    is_soon_earned,
    rent,
)
from policies.model import Prices

TENTH = Prices(cached=0.1, write=1.0, output=8.0)
OPTIONS = EconomicsOptions()


def test_a_break_costs_what_is_written_instead_of_read() -> None:
    assert break_cost(10_000, TENTH) == pytest.approx(9_000)
    assert break_cost(10_000, Prices(0.1, 1.25, 8.0)) == pytest.approx(11_500)
    assert break_cost(10_000, Prices(1.0, 1.0, 8.0)) == 0


def test_calls_to_break_even_are_the_price_factor_by_the_ratio() -> None:
    assert calls_to_break_even(5_000, 10_000, TENTH) == pytest.approx(18)
    assert calls_to_break_even(5_000, 10_000, Prices(0.5, 1.0, 8.0)) == pytest.approx(2)
    assert calls_to_break_even(5_000, 0, TENTH) == 0


@pytest.mark.parametrize("removed", [0, -200])
def test_what_removes_nothing_never_breaks_even(removed: float) -> None:
    assert calls_to_break_even(removed, 10, TENTH) == math.inf


def test_where_cached_reads_are_free_nothing_breaks_even() -> None:
    assert calls_to_break_even(5_000, 10, Prices(0.0, 1.0, 8.0)) == math.inf


def test_rent_is_the_cached_read_and_never_negative() -> None:
    assert rent(20_000, TENTH) == pytest.approx(2_000)
    assert rent(-5, TENTH) == 0


def test_decisions_never_assume_a_dear_cached_read() -> None:
    assert decision_prices(Prices(0.5, 1.25, 4.0), OPTIONS) == Prices(0.1, 1.25, 4.0)
    assert decision_prices(Prices(0.05, 1.0, 4.0), OPTIONS).cached == 0.05


def test_rent_is_due_when_the_break_is_paid_patience_times_over() -> None:
    assert not is_rent_due(17_999, 10_000, TENTH, OPTIONS)
    assert is_rent_due(18_001, 10_000, TENTH, OPTIONS)


def test_a_young_run_must_earn_its_break_sooner() -> None:
    assert not is_soon_earned(10_000, 4_000, 28, TENTH, OPTIONS)  # 3.6 calls to break even, times 8
    assert is_soon_earned(10_000, 4_000, 29, TENTH, OPTIONS)
