"""Which drafts may stand for their originals."""

from __future__ import annotations

import pytest

from proxy.core.model import Usage
from proxy.summaries.base import Draft
from proxy.summaries.checks import MOST_CHARS, clean, fault

GOOD = "Berth 4711 was checked; the sluice is open."


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (Draft(GOOD), ""),
        (Draft(GOOD, finish=""), ""),
        (Draft(""), "empty"),
        (Draft(" \n"), "empty"),
        (Draft("", has_reasoning=True), "only reasoning"),
        (Draft("<think>a plan</think>  "), "only reasoning"),
        (Draft("<thinking>never closed"), "only reasoning"),
        (Draft(GOOD, finish="length"), "cut"),
        (Draft(GOOD, finish="max_tokens"), "cut"),
        (Draft(GOOD, has_calls=True), "a tool call"),
        (Draft(GOOD, is_refusal=True), "refused"),
        (Draft(GOOD, finish="content_filter"), "refused"),
        (Draft("I'm sorry, but I cannot do that."), "refused"),
        (Draft("I cannot help with this."), "refused"),
        (Draft("x" * (MOST_CHARS + 1)), "too long"),
        (Draft("x" * 700), "saves too little"),
    ],
)
def test_faults(draft: Draft, reason: str) -> None:
    assert fault(draft, 1_000 if "little" in reason else 100_000) == reason


def test_a_thought_is_no_part_of_a_summary() -> None:
    assert clean(f"<think>let me see</think>\n{GOOD}\n") == GOOD
    assert fault(Draft(f"<think>{'x' * 9_000}</think>{GOOD}", usage=Usage(1, 1)), 1_000) == ""
