"""Who answers what: the story up to a checked part, the model in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from proxy.core.model import Usage
from proxy.core.pricing import ModelFacts, Rates
from proxy.demo.pairing import Refusal
from proxy.demo.provider import Answer, ScriptedCall
from proxy.evaluation.live.briefing import parts
from proxy.evaluation.live.endpoint import Endpoint, Said
from proxy.evaluation.live.purse import CostReachedError, Purse
from proxy.evaluation.live.stage import GAVE_UP, MOST_CALLS, PAYMENT, SILENT, Stage, restored, unscripted
from proxy.evaluation.scripted.reader import TOOL
from proxy.evaluation.scripted.spec import tell
from tests.proxy.evaluation.scripted.test_reader import MOVES, RULE, TRADE

STORY = tell({"name": "tide", "moves": MOVES}, TRADE, 1)
GAUGE = STORY.moves[3].needs[0].value
SAID = {"role": "user", "content": STORY.moves[0].said}
FACTS = ModelFacts(window=9_000, rates=Rates(1.0, 0.1, 1.0, 4.0))
TOOLS = [{"type": "function", "function": {"name": TOOL}}]


asked: list[Any] = []


def stage(answers: list[Any], limit: float | None = None) -> Stage:
    """With a model that says these one after another."""

    class Told(Endpoint):
        def ask(self, messages: Any, tools: Any) -> Said | Refusal:
            found: Refusal | Answer = answers.pop(0)
            if isinstance(found, Refusal):
                return found
            calls = [{"id": call.id, "function": {"name": call.name}} for call in found.calls]
            asked.append(messages)
            return Said(found, Usage(50, 5), {"role": "assistant", "reasoning_content": "why", "tool_calls": calls})

    return Stage(script=unscripted, parts=parts(STORY), endpoint=Told("http://a", "m"), purse=Purse(FACTS, limit))


def ask(on: Stage, *messages: Mapping[str, Any], tools: Any = ()) -> Answer | Refusal:
    return asyncio.run(on.answer({"messages": [SAID, *messages], "tools": tools}, 40))


def at_the_checked_part(answers: list[Any], limit: float | None = None) -> Stage:
    on = stage(answers, limit)
    first = ask(on)
    assert isinstance(first, Answer) and [call.name for call in first.calls] == ["read_log"]
    assert ask(on) == Answer("Done.")  # the story goes on with what the user says
    return on


NOTE = ScriptedCall("n", "note", json.dumps({"gauge": GAUGE}))
LOG = {"role": "tool", "content": f"the gauge said {GAUGE} twice"}


def test_the_model_is_asked_where_something_is_checked() -> None:
    on = at_the_checked_part([Answer("", (NOTE,)), Answer("")])
    assert ask(on, LOG, RULE) == Answer("", (NOTE,)) and not on.seen
    assert ask(on, LOG, RULE) == Answer(SILENT)  # a list with an empty answer would be refused
    (seen,) = on.seen
    assert not seen.unmet and seen.has_rule and seen.at == 2
    assert on.fetching == [False] * 4 and sorted(on.real) == [2, 3] and on.real[2].input == 50
    assert ask(on, LOG, RULE) == Answer("Done.")


def test_what_was_fetched_is_told_apart() -> None:
    fetch = Answer("", (ScriptedCall("f", TOOL, '{"id": "abcdefghijk2"}'),))
    on = at_the_checked_part([fetch, Answer("That is all.")])
    assert ask(on, tools=TOOLS) == fetch and on.real[2].is_expand
    ask(on, LOG, RULE, tools=TOOLS)
    (seen,) = on.seen
    assert seen.unmet and not seen.unmet_expanded and seen.has_rule and seen.is_followable
    assert on.fetching[2:] == [True, False]


def test_a_tool_that_was_not_offered_fetches_nothing() -> None:
    on = at_the_checked_part([Answer("", (ScriptedCall("f", TOOL, "{}"),))])
    ask(on)
    assert not on.real[2].is_expand and not on.fetching[2]


def test_it_gives_up_in_the_end() -> None:
    on = at_the_checked_part([Answer("", (NOTE,))] * MOST_CALLS)
    for _ in range(MOST_CALLS):
        assert ask(on) == Answer("", (NOTE,))
    assert ask(on) == Answer(GAVE_UP) and len(on.seen) == 1


@pytest.mark.parametrize(
    ("refusal", "is_trouble"),
    [(Refusal("no key", status=401), True), (Refusal("x", code="context_length_exceeded"), False)],
)
def test_refusals_pass_and_only_some_are_trouble(refusal: Refusal, is_trouble: bool) -> None:
    on = at_the_checked_part([refusal, Answer("Again.")])
    assert ask(on) == refusal and (on.trouble is not None) is is_trouble
    assert ask(on) == Answer("Again.")


def test_no_money_no_call() -> None:
    on = at_the_checked_part([], limit=0.0)
    found = ask(on)
    assert isinstance(found, Refusal) and found.status == PAYMENT and isinstance(on.trouble, CostReachedError)


def test_what_the_provider_wants_back_is_given_back() -> None:
    signed = {"id": "c", "extra_content": "signed", "index": 0}
    said = {"c": {"role": "assistant", "annotations": [], "reasoning_content": "why", "tool_calls": [signed]}}
    function = {"name": "masked", "arguments": "{}"}
    ours = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]}
    theirs = {"role": "assistant", "tool_calls": [{"id": "d"}]}
    assert restored([SAID, ours, theirs], said) == [
        SAID,
        {
            **ours,
            "reasoning_content": "why",
            "tool_calls": [{"id": "c", "extra_content": "signed", "function": function}],
        },
        theirs,
    ]
    on = at_the_checked_part([Answer("", (NOTE,)), Answer("Done.")])
    ask(on)
    ask(on, {**ours, "tool_calls": [{"id": "n", "function": function}]})
    assert asked[-1][1]["reasoning_content"] == "why"
