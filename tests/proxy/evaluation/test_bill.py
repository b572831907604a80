"""Bills by price model: cached, written, expand answers, cliffs, and shares of the direct bill."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.evaluation.bill import DEFAULT_PRICES, PRICE_MODELS, PriceModel, share
from proxy.evaluation.results import CallBill, TaskResult

CALLS = (CallBill(1000, 0, 50), CallBill(1200, 1000, 50), CallBill(1300, 1200, 60, is_expand=True))
DIRECT = (CallBill(1000, 0, 50), CallBill(2000, 1000, 50))
RESULT = TaskResult("t", "f", "recorded", "sticky", "half", 1000, calls=CALLS, direct_calls=DIRECT)


def test_answers_count_where_they_are_ours() -> None:
    assert PriceModel("", 0.1).bill(CALLS) == pytest.approx(1000 + 200 + 100 + 100 + 120 + 60 * 8)


def test_writes_can_be_dearer() -> None:
    assert PriceModel("", 0.1, written=1.25).bill(DIRECT) == pytest.approx(1250 + 1250 + 100)


def test_above_the_cliff_every_token_is_dearer() -> None:
    prices = PriceModel("", 0.1, cliff=0.5)
    assert prices.bill(DIRECT, above=1000) == pytest.approx(1000 + 400 + 2 * 1100 + 400 * 1.5)
    ours, direct = prices.bills(RESULT) or (0, 0)
    assert direct == pytest.approx(4200)
    assert ours == pytest.approx(1000 + 400 + 2 * 300 + 600 + 2 * 220 + 1.5 * 480)


def test_the_share_in_total_mean_and_worst() -> None:
    twice = replace(RESULT, calls=DIRECT)
    found = share([RESULT, twice, replace(RESULT, error="boom"), replace(RESULT, calls=())], PriceModel("", 0.1))
    assert found is not None and found.runs == 2
    one = (1000 + 200 + 100 + 100 + 120 + 480) / 2100
    assert (found.total, found.mean, found.worst) == pytest.approx(((one + 1) / 2, (one + 1) / 2, 1.0))
    assert share([], DEFAULT_PRICES) is None


def test_passing_through_costs_what_direct_costs() -> None:
    same = replace(RESULT, calls=DIRECT)
    for prices in PRICE_MODELS:
        found = share([same], prices)
        assert found is not None and found.total == pytest.approx(1)
    assert len({prices.name for prices in PRICE_MODELS}) == len(PRICE_MODELS)
