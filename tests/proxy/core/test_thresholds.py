from __future__ import annotations

import pytest

from proxy.core.pricing import Cliff, ModelFacts
from proxy.core.thresholds import Thresholds, dead_zone, thresholds


def test_with_a_cliff_it_is_the_boundary() -> None:
    assert thresholds(922_000, 272_000) == Thresholds(
        boundary=272_000, compact_at=199_920, guard_window=792_920, target=163_200, guard_cliff=263_840
    )
    assert thresholds(922_000, 272_000).guard == 263_840


@pytest.mark.parametrize("cliff", [None, 0, 128_000, 200_000])
def test_without_a_cliff_below_the_window_the_window_is_the_boundary(cliff: int | None) -> None:
    found = thresholds(128_000, cliff)
    assert (found.boundary, found.compact_at, found.guard, found.guard_cliff) == (128_000, 94_080, 110_080, None)


def test_a_cliff_near_the_window_leaves_the_window_guard_in_charge() -> None:
    found = thresholds(200_000, 190_000)
    assert found.guard == found.guard_window == 172_000


def test_shares_and_a_configured_threshold() -> None:
    found = thresholds(100_000, None, compact_at=50_000, target_share=0.4, guard_window_share=0.9)
    assert (found.compact_at, found.target, found.guard) == (50_000, 40_000, 90_000)


def test_the_target_is_never_above_the_threshold() -> None:
    assert thresholds(100_000, None, compact_at=30_000).target == 30_000


@pytest.mark.parametrize("compact_at", [200_000, 0, None])
def test_a_threshold_that_a_small_window_cannot_reach_falls_back(compact_at: int | None) -> None:
    assert thresholds(45_000, None, compact_at=compact_at).compact_at == 33_075


@pytest.mark.parametrize("window", [1_000, 4_096, 45_000, 1_048_576])
def test_order_holds_for_every_window(window: int) -> None:
    for cliff in (None, window // 3, window - 1):
        found = thresholds(window, cliff)
        assert 0 < found.target <= found.compact_at <= found.guard < window


def test_the_dead_zone_is_explained() -> None:
    text = dead_zone(300_000, 922_000, 272_000)
    assert text is not None
    assert "300,000" in text and "272,000" in text and "263,840" in text and "cliff = 0" in text
    assert "just under" in str(dead_zone(270_000, 922_000, 272_000))
    above = dead_zone(120_000, 128_000)
    assert above is not None and "110,080" in above and "guard" in above and "cliff" not in above


def test_a_good_threshold_is_not_in_the_dead_zone() -> None:
    assert dead_zone(200_000, 922_000, 272_000) is None
    assert dead_zone(263_840, 922_000, 272_000) is None
    assert dead_zone(500_000, 922_000, 0) is None
    assert dead_zone(95_000, 100_000, guard_window_share=0.95) is None


@pytest.mark.parametrize("above", [199_999, 200_000])
def test_of_several_tiers_the_first_counts_wherever_it_begins(above: int) -> None:
    """Billed higher from 200,000 on, or only beyond it: no window that the guard lets pass is near either."""
    facts = ModelFacts(1_000_000, cliffs=(Cliff(above), Cliff(500_000)))
    found = thresholds(facts.window, facts.cliff)
    assert found.boundary == above and found.compact_at <= int(0.735 * above) < found.guard < 199_000
    assert thresholds(facts.window, facts.cliff, guard_cliff_share=1.0).guard <= above
