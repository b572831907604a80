from __future__ import annotations

import pytest

from policies.model import Prices
from proxy.core.model import Usage
from proxy.core.pricing import Cliff, ModelFacts, Rates, ServiceTier, cost, direct_cost, direct_usage, with_limit

RATES = Rates(input=2.0, cached=0.2, written=2.5, output=10.0)
BEYOND = Rates(input=4.0, cached=0.4, written=5.0, output=15.0)
FACTS = ModelFacts(window=922_000, cliffs=(Cliff(272_000, BEYOND),), rates=RATES)


def test_cached_tokens_are_part_of_the_input() -> None:
    """USGE-07: 1000 in of which 800 cached, 50 out = 200 full + 800 cached + 50 output."""
    assert cost(Usage(1000, 50, cached=800), FACTS) == pytest.approx((200 * 2 + 800 * 0.2 + 50 * 10) / 1e6)


def test_written_tokens_too() -> None:
    assert cost(Usage(1000, 0, cached=700, written=200), FACTS) == pytest.approx(
        (100 * 2 + 700 * 0.2 + 200 * 2.5) / 1e6
    )
    assert cost(Usage(1000, 0, cached=5_000, written=9_000), FACTS) == pytest.approx(1000 * 0.2 / 1e6)


def test_the_cliff_counts_cached_tokens_and_reprices_all_of_it() -> None:
    at = cost(Usage(272_000, 1_000, cached=256_000), FACTS)
    above = cost(Usage(272_001, 1_000, cached=256_000), FACTS)
    assert at == pytest.approx((16_000 * 2 + 256_000 * 0.2 + 1_000 * 10) / 1e6)
    assert above == pytest.approx((16_001 * 4 + 256_000 * 0.4 + 1_000 * 15) / 1e6)


def test_the_highest_cliff_passed_wins() -> None:
    top = Rates(8.0, 8.0, 8.0, 30.0)
    facts = ModelFacts(window=1_000_000, cliffs=(Cliff(32_000, BEYOND), Cliff(128_000, top)), rates=RATES)
    assert facts.cliff == 32_000
    assert facts.rates_at(32_000) == RATES
    assert facts.rates_at(32_001) == BEYOND
    assert facts.rates_at(500_000) == top


def test_a_cliff_without_prices_changes_none() -> None:
    assert ModelFacts(window=9_000, cliffs=(Cliff(100),), rates=RATES).rates_at(200) == RATES


def test_the_provider_s_own_figure_wins() -> None:
    assert cost(Usage(1000, 50, cost=0.0), FACTS) == 0.0
    assert cost(Usage(1000, 50, cost=1.5), ModelFacts(window=1)) == 1.5


def test_no_price_no_cost() -> None:
    assert cost(Usage(1000, 50), ModelFacts(window=128_000)) is None
    assert direct_cost(1000, 0, 50, ModelFacts(window=128_000)) is None
    assert ModelFacts(window=128_000).ratios == Prices()
    assert ModelFacts(window=128_000, rates=Rates(0, 0, 0, 0)).ratios == Prices()


def test_ratios_for_a_policy() -> None:
    assert FACTS.ratios == Prices(cached=0.1, write=1.25, output=5.0)


def test_a_service_tier_has_its_own_rates_and_cliffs() -> None:
    facts = ModelFacts(
        window=922_000, rates=RATES, cliffs=FACTS.cliffs, tiers=(ServiceTier("flex", Rates(1.0, 0.1, 1.0, 5.0)),)
    )
    assert cost(Usage(300_000, 0), facts, service_tier="flex") == pytest.approx(0.3)
    assert cost(Usage(300_000, 0), facts, service_tier="unheard-of") == pytest.approx(1.2)


def test_the_direct_run_reads_its_own_prefix_from_the_cache() -> None:
    assert direct_usage(10_000, 9_000, 50, FACTS) == Usage(10_000, 50, 8_960, 1_040, is_estimated=True)
    assert direct_usage(10_000, 9_000, 50, FACTS, is_cold=True).cached == 0
    assert direct_usage(10_000, 900, 50, FACTS).cached == 0  # below what a provider caches
    assert direct_usage(5_000, 9_000, 50, FACTS).cached == 4_992
    free_writes = ModelFacts(window=128_000, rates=Rates(2.0, 0.2, 2.0, 10.0))
    assert direct_usage(10_000, 9_000, 50, free_writes).written == 0


def test_the_direct_run_pays_the_cliff() -> None:
    below, above = direct_cost(272_000, 271_000, 0, FACTS), direct_cost(273_000, 272_000, 0, FACTS)
    assert below is not None and above is not None and above > 1.9 * below


def test_a_limit_from_the_provider_wins() -> None:
    facts = with_limit(
        ModelFacts(window=922_000, max_input=922_000, total_window=1_050_000, cliffs=FACTS.cliffs), 45_000
    )
    assert (facts.window, facts.max_input, facts.total_window, facts.cliff) == (45_000, 45_000, 45_000, None)
    larger = with_limit(ModelFacts(window=128_000), 262_144)
    assert (larger.window, larger.max_input, larger.total_window) == (262_144, 262_144, 262_144)
    assert "provider's error" in larger.source
