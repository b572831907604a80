"""The worked example keeps the contract, is found by its import string, and its options are checked at start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Form
from policies.registry import PolicyError, build
from policies.testing import check_policy, forms_of, make_session, make_situation

PATH = "tests.policies.example:Forget"


def test_it_passes_the_conformance_check() -> None:
    assert check_policy(build(PATH, {"tool": "grep"})) == 300


def test_it_does_what_it_says() -> None:
    items = tuple(replace(c, tool="grep") if c.index == 7 else c for c in make_session(6, 1_000))
    forms = forms_of(build(PATH, {"tool": "grep"}).select(make_situation(items, ceiling=6_000)))
    assert [index for index, item in enumerate(items) if forms[item.id] is Form.FOLDED] == [6, 7]


def test_its_options_are_checked_at_start() -> None:
    with pytest.raises(PolicyError, match="tool must name a tool"):
        build(PATH, {"tool": ""})
    with pytest.raises(PolicyError, match="must be a text"):
        build(PATH, {"tool": 3})
    with pytest.raises(PolicyError, match="Did you mean 'tool'"):
        build(PATH, {"tol": "grep"})


@pytest.mark.parametrize("name", ["selector", "greedy"])
def test_the_selecting_policies_are_built_by_name(name: str) -> None:
    policy = build(name, {"low": 0.75, "weights": "plain", "adjust": {"recency": 2}})
    assert policy.name == name
    for options, words in (({"low": 2}, "low must be"), ({"weights": "Z"}, "no weight table"),
                           ({"adjust": {"colour": 1}}, "no feature")):  # fmt: skip
        with pytest.raises(PolicyError, match=words):
            build(name, options)
