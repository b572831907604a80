"""Budgets: names, tokens, and what they come to for a run."""

from __future__ import annotations

import pytest

from proxy.errors import ConfigError
from proxy.evaluation.task import budget


@pytest.mark.parametrize(
    ("name", "tokens"), [("full", 10_000), ("half", 5_500), ("quarter", 3_250), ("8K", 8000), ("900", 900)]
)
def test_what_a_budget_comes_to(name: str, tokens: int) -> None:
    assert budget(name).of(1000, 10_000) == tokens


@pytest.mark.parametrize("name", ["", "third", "-5", "0", "8M", "1e3", "²", "99999999"])
def test_what_is_none(name: str) -> None:
    with pytest.raises(ConfigError, match="no budget") as caught:
        budget(name)
    assert "half" in caught.value.hint
