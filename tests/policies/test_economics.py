"""The arithmetic of a rewrite, against figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from policies.economics import (
    EconomicsOptions,
    best_period,
    break_cost,
    calls_to_break_even,
    cliff_break_even,
    decision_prices,
    hold_horizon,
    is_rent_due,
    is_shorter_worth,
    is_soon_earned,
    miss_cost,
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


@pytest.mark.parametrize(
    ("cached", "write", "factor"),
    [(0.05, 1, 19), (0.05, 1.25, 24), (0.1, 1, 9), (0.1, 1.25, 11.5), (0.1, 2, 19), (0.1, 2.5, 24), (0.25, 1, 3),
     (0.25, 1.25, 4), (0.5, 1, 1), (0.5, 1.25, 1.5)],
)  # fmt: skip
def test_the_price_factor_of_a_rewrite(cached: float, write: float, factor: float) -> None:
    assert calls_to_break_even(8_000, 8_000, Prices(cached, write, 8.0)) == pytest.approx(factor)


def test_misses_are_earned_as_well() -> None:
    assert calls_to_break_even(5_000, 10_000, TENTH, misses=1_000) == pytest.approx(20)
    assert miss_cost(1_000, 30_000, TENTH, 5_000) == pytest.approx(1_000 + 3_000 + 480 + 5_000)


def test_the_best_period_between_folds() -> None:
    assert round(best_period(14_000, 450, TENTH)) == 24
    assert best_period(14_000, 0, TENTH) == best_period(14_000, 450, Prices(cached=0.0)) == math.inf


def test_an_item_is_held_while_its_next_use_is_near() -> None:
    assert round(hold_horizon(1_000, 30_000, TENTH)) == 45
    assert hold_horizon(0, 30_000, TENTH) == math.inf


@pytest.mark.parametrize(("multiplier", "calls"), [(2, 3), (5, 1)])
def test_a_fold_before_a_cliff_is_earned_in_few_calls(multiplier: float, calls: int) -> None:
    assert round(cliff_break_even(40_000, 60_000, 100_000, multiplier, TENTH)) == calls
    assert cliff_break_even(0, 60_000, 100_000, 1, TENTH) == math.inf


def test_what_is_needed_again_in_one_of_twenty_cases_is_worth_shortening_in_a_long_run_only() -> None:
    """Saves 0.1 x 460 a call; a miss costs 500 + 2,000 + 480 + 5,000, in one case of twenty: 399."""
    assert not is_shorter_worth(460, 0.05, 500, 8, 20_000, TENTH, OPTIONS)
    assert is_shorter_worth(460, 0.05, 500, 9, 20_000, TENTH, OPTIONS)
