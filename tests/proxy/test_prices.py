from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib import resources

import pytest

from proxy import prices as module
from proxy.core.model import Usage
from proxy.core.pricing import Cliff, cost
from proxy.prices import DEFAULT_WINDOW, PriceBook

OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Given:
    window: int | None = None
    cliff: int | None = None
    input_price: float | None = None
    cached_price: float | None = None
    write_price: float | None = None
    output_price: float | None = None


def facts(model: str, given: Given | None = None, *, upstream: str = OPENAI):
    return PriceBook(upstream, (lambda _: given) if given else None).facts(model)


def test_a_model_with_a_cliff() -> None:
    found = facts("gpt-5.4")
    assert (found.window, found.max_input, found.max_output, found.total_window) == (
        922_000,
        922_000,
        128_000,
        1_050_000,
    )
    assert found.cliff == 272_000
    assert cost(Usage(272_000, 1_000), found) == pytest.approx(0.695)
    assert cost(Usage(272_001, 1_000), found) == pytest.approx(1.382505)
    assert cost(Usage(300_000, 1_000, cached=256_000), found) == pytest.approx(0.3705)


def test_service_tiers() -> None:
    found = facts("gpt-5.4")
    for tier, dollars in (("priority", 1.03), ("flex", 0.2575), ("default", 0.515), (None, 0.515)):
        assert cost(Usage(200_000, 1_000), found, service_tier=tier) == pytest.approx(dollars)


def test_a_cliff_that_begins_at_its_own_figure() -> None:
    found = facts("grok-4.6", upstream="https://api.x.ai/v1")
    assert found.cliff == 199_999
    at, below = cost(Usage(200_000, 0), found), cost(Usage(199_999, 0), found)
    assert at is not None and below is not None and at > 1.9 * below


@pytest.mark.parametrize(
    "model", ["gpt-5.4-mini", "gpt-5", "gpt-4.1", "claude-sonnet-4-5", "claude-opus-4-6", "o3", "kimi-k2.5"]
)
def test_a_model_without_a_cliff(model: str) -> None:
    assert PriceBook().facts(model).cliffs == ()


@pytest.mark.parametrize(
    "model",
    [
        "gpt-5.4",
        "GPT-5.4",
        "openai/gpt-5.4",
        "gpt-5.4-2026-03-05",
        " gpt-5.4 ",
        "gpt-5.4:floor",
        "router/openai/gpt-5.4",
    ],
)
@pytest.mark.parametrize("upstream", [OPENAI, "https://openrouter.ai/api/v1", "http://127.0.0.1:9/v1", "", "no url"])
def test_every_spelling_finds_the_same_model(model: str, upstream: str) -> None:
    found = facts(model, upstream=upstream)
    assert (found.window, found.cliff) == (922_000, 272_000)
    assert found.rates is not None and found.rates.input == 2.5


@pytest.mark.parametrize(
    "model", ["", " ", "no-such-model", "x/y/z:w", "/", ":", "ft:", "名前", "[", "*", "a" * 10_000, "\ud800"]
)
def test_tokn_08_an_unknown_model_has_the_default_window_and_no_price(model: str) -> None:
    """TOKN-08."""
    found = facts(model)
    assert (found.window, found.cliff, found.rates) == (DEFAULT_WINDOW, None, None)
    assert cost(Usage(1_000, 10), found) is None


def test_the_list_s_own_window_helps_where_the_table_is_silent() -> None:
    found = facts("amazon/nova-pro-v1", upstream="https://openrouter.ai/api/v1")
    assert found.rates is not None and found.window == 300_000


def test_a_fine_tuned_model_is_its_base() -> None:
    assert facts("ft:gpt-4o-2024-08-06:acme::1").window == 128_000


def test_a_learned_limit_wins_over_everything() -> None:
    book = PriceBook(OPENAI, lambda _: Given(window=500_000, cliff=400_000))
    assert book.facts("gpt-5.4").window == 500_000
    found = book.facts("gpt-5.4", learned_limit=45_000)
    assert (found.window, found.cliff) == (45_000, None)
    assert book.facts("gpt-5.4").window == 500_000


def test_the_operator_s_window_and_cliff() -> None:
    assert facts("gpt-5.4", Given(window=200_000)).cliffs == ()  # the listed cliff lies beyond it
    assert facts("gpt-5.4", Given(cliff=0)).cliffs == ()
    moved = facts("gpt-5.4", Given(cliff=100_000))
    assert moved.cliffs[0].above == 100_000
    assert moved.rates_at(100_001) == facts("gpt-5.4").rates_at(272_001)
    assert facts("unknown", Given(cliff=9_000)).cliffs == (Cliff(9_000),)


def test_the_operator_s_prices() -> None:
    found = facts("gpt-5.4", Given(input_price=1.0, output_price=8.0))
    assert found.rates is not None
    assert (found.rates.input, found.rates.output) == (1.0, 8.0)
    assert found.rates.cached == pytest.approx(0.1)  # keeps its ratio
    beyond = found.rates_at(272_001)
    assert beyond is not None
    assert (beyond.input, beyond.cached, beyond.output) == pytest.approx((2.0, 0.2, 12.0))
    assert found.tiers == ()
    own = facts("mine", Given(input_price=2.0, cached_price=0.5, write_price=3.0, output_price=4.0, cliff=10_000))
    assert cost(Usage(1_000_000, 0), own) == pytest.approx(4.0)
    assert cost(Usage(10_000, 0, cached=10_000), own) == pytest.approx(0.005)
    free = facts("mine", Given(input_price=0.0))
    assert cost(Usage(10_000, 50), free) == 0.0


def test_an_answer_is_remembered() -> None:
    calls: list[str] = []

    def override(model: str) -> Given:
        calls.append(model)
        return Given()

    book = PriceBook(OPENAI, override)
    assert book.facts("gpt-5.4") is book.facts("gpt-5.4")
    for number in range(3_000):
        book.facts(f"model-{number}")
    assert calls.count("gpt-5.4") == 1
    assert len(book._known) <= 2_048


async def test_load_prepares_the_list() -> None:
    await PriceBook(OPENAI).load()
    assert module._price_list() is not None


def test_without_the_price_list_windows_are_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_price_list", lambda: None)
    found = facts("gpt-5.4")
    assert (found.window, found.rates, found.cliffs) == (922_000, None, ())


def test_importing_the_module_does_not_import_the_price_list() -> None:
    code = "import sys, proxy.prices; sys.exit('genai_prices' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_table_is_sound() -> None:
    """No entry is hidden by one before it, and every figure is possible."""
    entries = tomllib.loads(resources.files("proxy").joinpath("data", "models.toml").read_text("utf-8"))["model"]
    seen: list[str] = []
    for entry in entries:
        for pattern in entry["match"]:
            assert pattern == pattern.lower()
            sample = pattern.rstrip("*")
            hidden = [earlier for earlier in seen if earlier.endswith("*") and sample.startswith(earlier.rstrip("*"))]
            assert not [earlier for earlier in hidden if earlier.count("*") == 1], f"{pattern} is hidden by {hidden}"
            seen.append(pattern)
        assert 1_000 <= entry["window"] <= 100_000_000
        assert entry.get("max_input", entry["window"]) <= entry["window"]
        assert entry.get("max_output", 1) <= entry["window"]
