"""What could exceed the limit is not begun; what was billed is what counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.core.model import Usage
from proxy.core.pricing import ModelFacts, Rates
from proxy.errors import InputError
from proxy.evaluation.live.purse import MARGIN, CostReachedError, Ledger, Purse

FACTS = ModelFacts(window=128_000, rates=Rates(2.0, 0.2, 2.0, 10.0))


def test_the_bill_is_paid_not_the_most_it_could_be() -> None:
    purse = Purse(FACTS, limit=1.0)
    with purse.paying(10_000, 2_000) as bills:
        bills.append(Usage(10_000, 100, cached=8_000))
    assert purse.spent == pytest.approx((2_000 * 2 + 8_000 * 0.2 + 100 * 10) / 1e6)


def test_calls_under_way_count_at_their_most() -> None:
    one = (10_000 * MARGIN * 2 + 2_000 * 10) / 1e6
    purse = Purse(FACTS, limit=1.5 * one)
    with purse.paying(10_000, 2_000):
        with pytest.raises(CostReachedError, match="could cost") as caught, purse.paying(10_000, 2_000):
            pass
        assert "is kept" in caught.value.hint
    with purse.paying(10_000, 2_000):  # the first cost nothing after all
        pass
    assert purse.spent == 0


def test_what_a_failed_call_was_billed_is_spent() -> None:
    purse = Purse(FACTS)
    with pytest.raises(ValueError, match="odd"), purse.paying(10, 10) as bills:
        bills.append(Usage(1_000_000, 0))
        raise ValueError("odd")
    assert purse.spent == 2.0


def test_without_a_limit_or_a_price_nothing_stops_it() -> None:
    with Purse(FACTS).paying(10**9, 10**9), Purse(ModelFacts(window=1), limit=0.0).paying(10**9, 10):
        pass


def test_payments_outlive_the_process(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "spent.txt")
    assert ledger.total() == 0
    purse = Purse(FACTS, book=ledger.add)
    for _ in range(2):
        with purse.paying(10, 10) as bills:
            bills.append(Usage(250_000, 0))
    with purse.paying(10, 10):  # nothing paid, nothing written
        pass
    assert Ledger(tmp_path / "spent.txt").total() == purse.spent == 1.0
    assert len(ledger.path.read_text().splitlines()) == 2
    ledger.path.write_text("1.0\nmuch\n")
    with pytest.raises(InputError, match=r"spent\.txt"):
        ledger.total()
