"""A transcript through the real proxy: the direct bill is that of the whole list, and long ones get cheaper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from proxy.config import LogConfig
from proxy.core.pricing import Cliff
from proxy.evaluation.estimate.replay import estimate
from proxy.evaluation.estimate.transcripts import Transcript
from proxy.logs import configure_logging
from proxy.prices import PriceBook
from tests.support import builders

FACTS = replace(PriceBook("https://api.openai.com/v1").facts("gpt-5"), cliffs=())


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    yield
    configure_logging(LogConfig())


def talk(steps: int, size: int = 12_000) -> Transcript:
    messages: list[Any] = [builders.system(), builders.user("survey the harbour")]
    for number in range(steps):
        messages += builders.step(number, builders.long_text(number, size))
    return Transcript("harbour", (*messages, builders.assistant("done")), "gpt-5")


def test_a_short_talk_costs_what_it_did() -> None:
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    found = estimate(talk(2, 500), facts=FACTS, on_call=count)
    assert calls == len(found.calls) == 3 and found.share == pytest.approx(1.0, abs=0.01)
    assert not found.left and found.crossed_at == found.too_large_at == 0
    inputs = [call.direct.input for call in found.calls]
    assert inputs == sorted(inputs) and found.calls[0].direct.cached == 0


def test_a_long_talk_gets_cheaper_and_what_is_left_out_is_told() -> None:
    found = estimate(talk(40), facts=FACTS)
    assert found.share < 0.8 and found.cost is not None and found.direct_cost is not None
    assert found.cost < found.direct_cost and found.left
    assert all(one.tokens > 0 and 0 < one.at <= 41 and one.form != "full" for one in found.left)
    assert found.calls[-1].through.input < found.calls[-1].direct.input


def test_where_the_cliff_was_passed() -> None:
    assert FACTS.rates is not None
    dear = replace(FACTS.rates, input=2 * FACTS.rates.input, cached=2 * FACTS.rates.cached)
    found = estimate(talk(30), facts=replace(FACTS, cliffs=(Cliff(30_000, dear),)))
    at = found.crossed_at
    assert found.calls[at - 1].direct.input > 30_000 >= found.calls[at - 2].direct.input
    assert all(call.through.input <= 30_000 for call in found.calls)


def test_a_talk_larger_than_the_window() -> None:
    found = estimate(talk(20), facts=replace(FACTS, window=30_000))
    assert found.too_large_at and found.calls[found.too_large_at - 1].direct.input > 30_000


def test_without_a_price_the_share_is_by_tokens() -> None:
    found = estimate(talk(30), facts=replace(FACTS, rates=None))
    assert found.cost is None and found.direct_cost is None and 0 < found.share < 1


def test_a_policy_that_changes_nothing() -> None:
    found = estimate(talk(20), policy="passthrough", facts=FACTS)
    assert found.share == pytest.approx(1.0, abs=0.01) and not found.left and not found.folds
