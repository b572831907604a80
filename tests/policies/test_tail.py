"""What was seen in full exactly once is shortened where that pays; nothing else is touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.draft import Draft
from policies.economics import EconomicsOptions
from policies.ledger import Ledger
from policies.model import Candidate, ExcerptKind, Form
from policies.tail import shorten_tail
from policies.testing import make_session, make_situation

OPTIONS = EconomicsOptions()
CALLS = 60


def session(
    tool: str, source: str, tokens: int, excerpt: ExcerptKind = "", bases: tuple[str, ...] = ()
) -> list[Candidate]:
    """A run of 60 calls at about 400 tokens; the newest result but one is as told."""
    candidates = list(make_session(CALLS, 250, call_tokens=150))
    at = max(c.index for c in candidates if c.kind == "tool_result" and c.call == CALLS - 1)
    costs = (0, 0, 40, 60 if excerpt else -1, -1, tokens)
    candidates[at] = replace(candidates[at], tool=tool, source=source, costs=costs, excerpt=excerpt, bases=bases)
    return candidates


def shortened(
    candidates: list[Candidate], options: EconomicsOptions = OPTIONS, held: dict[str, Form] | None = None
) -> Draft:
    draft = Draft(make_situation(candidates, held=held or {}))
    newest = [c.index for c in candidates if c.call == CALLS]
    start = newest[0]
    reason = shorten_tail(draft, Ledger(0.0, start, start - 2), options)
    assert bool(reason) == draft.is_changed
    return draft


def changed(draft: Draft) -> list[tuple[str, Form]]:
    return [(draft.candidates[index].tool, draft.forms[index]) for index in draft.changed()]


def test_what_is_hardly_ever_needed_again_becomes_a_stub() -> None:
    assert changed(shortened(session("bash", "pytest -q", 500))) == [("bash", Form.STUB)]


def test_what_is_often_needed_again_stays() -> None:
    assert changed(shortened(session("bash", "cat core.py", 900))) == []


def test_a_failed_run_stays() -> None:
    candidates = [replace(c, is_failed=c.kind == "tool_result") for c in session("bash", "pytest -q", 500)]
    assert changed(shortened(candidates)) == []


def test_a_small_saving_is_not_worth_it() -> None:
    assert changed(shortened(session("bash", "pytest -q", 60))) == []


def test_repeated_lines_become_references_while_what_they_refer_to_stands() -> None:
    base = make_session(CALLS, 250)[5].id
    assert changed(shortened(session("bash", "cat core.py", 900, "delta", (base,)))) == [("bash", Form.EXCERPT)]
    masked = shortened(session("bash", "cat core.py", 900, "delta", (base,)), held={base: Form.STUB})
    assert changed(masked) == []
    assert changed(shortened(session("bash", "cat core.py", 900, "delta", ("gone",)))) == []


@pytest.mark.parametrize(("source", "form"), [("grep -rn tide .", [("bash", Form.EXCERPT)]), ("cat core.py", [])])
def test_large_outputs_become_excerpts_but_files_do_not(source: str, form: list[tuple[str, Form]]) -> None:
    assert changed(shortened(session("bash", source, 1_500, "lines"))) == form
    assert changed(shortened(session("bash", source, 1_500, "lines"), replace(OPTIONS, excerpts=False))) == []


def test_a_gate_makes_an_excerpt_wait_until_the_run_is_long_enough() -> None:
    gated = replace(OPTIONS, excerpt_gate=50.0)
    assert changed(shortened(session("bash", "grep -rn tide .", 1_500, "lines"), gated)) == []


def test_small_windows_and_the_same_list_again_are_left_alone() -> None:
    short = Draft(make_situation(make_session(8, 250, call_tokens=150)))
    assert shorten_tail(short, Ledger(0.0, 14, 0), OPTIONS) == ""
    again = Draft(make_situation(session("bash", "pytest -q", 500)))
    assert shorten_tail(again, Ledger(0.0, len(again.candidates), 0), OPTIONS) == ""


def test_what_was_sent_more_than_once_is_never_touched() -> None:
    candidates = session("bash", "pytest -q", 500)
    draft = Draft(make_situation(candidates))
    assert shorten_tail(draft, Ledger(0.0, len(candidates) - 2, len(candidates) - 2), OPTIONS) == ""
