"""Which words tell one thing from another, and which groups a recent action keeps in use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.ageing import WordIndex, groups_in_use, telling_words
from policies.model import Candidate
from policies.testing import make_candidate


def run(*texts: str) -> list[Candidate]:
    """Alternating actions and results, a group a pair; calls count from 1."""
    made = []
    for index, text in enumerate(texts):
        kind = "tool_result" if index % 2 else "assistant"
        made.append(make_candidate(index, kind, 100, group=index // 2, call=index // 2 + 1, text=text))
    return made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("look at src/quay/mole.py", {"src/quay/mole.py", "mole.py"}),
        ("the port is 5417 now", {"5417"}),
        ("call tideGauge and pilot_name", {"tideGauge", "pilot_name"}),
        ("the tide is late again", set()),
        ("a12", set()),
    ],
)
def test_telling_words(text: str, words: set[str]) -> None:
    assert telling_words(text) == words


def test_a_group_named_by_a_recent_action_is_in_use() -> None:
    candidates = run("read", "def raise_sluice_12(): ...", "read", "nothing", "edit raise_sluice_12", "done")
    assert groups_in_use(candidates, WordIndex(), 1) == {0}


def test_an_action_of_long_ago_holds_nothing() -> None:
    candidates = run("read", "raise_sluice_12", "edit raise_sluice_12", "done", "think", "x", "think", "x")
    assert groups_in_use(candidates, WordIndex(), 2) == frozenset()
    assert groups_in_use(candidates, WordIndex(), 3) == {0}


def test_a_word_that_many_items_hold_names_none_of_them() -> None:
    candidates = run(*["raise_sluice_12"] * 8, "edit raise_sluice_12", "done")
    assert 4 not in groups_in_use(candidates, WordIndex(), 1)
    assert groups_in_use(candidates, WordIndex(), 1) == frozenset()


def test_words_are_read_anew_when_the_text_changed() -> None:
    index = WordIndex()
    candidate = make_candidate(0, "assistant", 10, text="read mole_1.py")
    assert index.words(candidate) is index.words(candidate)
    assert index.words(replace(candidate, text="read quay_2.py")) == {"quay_2.py"}


def test_nothing_is_in_use_in_nothing() -> None:
    assert groups_in_use([], WordIndex(), 10) == frozenset()
