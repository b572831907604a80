from __future__ import annotations

import pytest

from proxy.core.overflow_rules import DEFAULT


def test_a_broken_pattern_is_named() -> None:
    with pytest.raises(ValueError, match=r"overflow pattern '\(unclosed'"):
        DEFAULT.extended(patterns=["(unclosed"])
    with pytest.raises(ValueError, match=r"overflow veto '\*'"):
        DEFAULT.extended(vetoes=["*"])


@pytest.mark.parametrize("text", ["", ".*", "(?:)"])
def test_a_pattern_that_matches_everything_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="matches every text"):
        DEFAULT.extended(patterns=[text])


def test_extending_leaves_the_default_alone() -> None:
    before = DEFAULT.phrases
    extended = DEFAULT.extended(patterns=["more than we take"], vetoes=["not this one"])
    assert DEFAULT.phrases is before
    assert len(extended.phrases) == len(before) + 1
    assert len(extended.vetoes) == len(DEFAULT.vetoes) + 1
