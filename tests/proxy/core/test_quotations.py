"""Summaries put to use, and chores that quote."""

from __future__ import annotations

import pytest

from proxy.core.branches import BranchView
from proxy.core.identity import Path, Probe, emitted, hash_head, probe, steps_of
from proxy.core.model import Element, Hints
from proxy.core.quotations import asks_for_summary, quoted_branch, summary_source
from tests.support.talks import TOOLS, assistant, conversation, system, user

SUMMARY = "Blade 14 fits the old mower, the bolt is sold out, the trimmer is still open."
ANSWER = assistant("Blade 14 fits the old mower.")
MAIN = BranchView(
    "m", "t", "c", head_hash=hash_head("S"), tools_hash=b"x" * 16, sent=1,
    path=Path([*steps_of([user("Which blade fits the mower?")]), *emitted([ANSWER])]),
)  # fmt: skip


def side(text: str = SUMMARY, scope: str = "", tick: int = 1) -> BranchView:
    path = Path([*steps_of([user("Sum it up.")]), *emitted([assistant(text)])])
    return BranchView(f"s{tick}", "t", "c", "side", parent="m", scope=scope, path=path, sent=1, tick=tick)


def asked(*elements: Element, scope: str = "", tools: bytes = TOOLS) -> Probe:
    return probe(conversation(elements, hints=Hints(scope=scope), tools=tools), "t")


def test_the_newest_side_call_with_that_output_is_the_source() -> None:
    request = asked(system("S"), user(f"So far:\n{SUMMARY}"))
    found = summary_source(request, [MAIN, side(tick=1), side(tick=2)])
    assert found is not None and found.id == "s2"
    assert summary_source(asked(system("S"), user("So far: nothing")), [MAIN, side()]) is None


def test_a_short_output_counts_inside_its_scope_only() -> None:
    short = "Done: all of the steps."  # 23 characters
    longer = short + " Finished."
    assert summary_source(asked(user(f"So: {longer}"), scope="a"), [side(longer, "a")]) is not None
    assert summary_source(asked(user(f"So: {short}"), scope="a"), [side(short, "a")]) is None
    assert summary_source(asked(user(f"So: {longer}")), [side(longer)]) is None
    assert summary_source(asked(user(f"So: {longer}"), scope="b"), [side(longer, "a")]) is None


def test_another_agent_that_quotes_a_summary_opens_no_epoch() -> None:
    assert summary_source(asked(system("S"), user(SUMMARY), tools=b""), [MAIN, side()]) is None
    assert summary_source(asked(system("Other"), user(SUMMARY)), [MAIN, side()]) is None


def test_two_quoted_texts_of_which_one_was_relayed_show_the_branch() -> None:
    both = user("U: Which blade fits the mower?\nA: Blade 14 fits the old mower.\n")
    assert quoted_branch(asked(system("Log line"), both, tools=b""), [MAIN]) is MAIN
    assert quoted_branch(asked(system("Log line"), both), [MAIN]) is None  # with tools it is an agent
    assert quoted_branch(asked(system("S"), both, tools=b""), [MAIN]) is None  # the same agent


def test_the_opening_alone_is_enough_for_a_chore() -> None:
    opening = user("<chat>Which blade fits the mower?</chat>")
    assert quoted_branch(asked(system("Give a title."), opening, tools=b""), [MAIN]) is MAIN
    assert quoted_branch(asked(system("Translate."), opening, tools=b""), [MAIN]) is None


@pytest.mark.parametrize("text", ["Write a summary", "generate a Title", "COMPACTION now", "x" * 5000 + " hand-off"])
def test_instructions_of_chores(text: str) -> None:
    assert asks_for_summary(text)
    assert not asks_for_summary("Fix the bug in parser.py, please.")
