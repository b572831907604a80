"""The strict provider must refuse what real ones refuse, or the tests that lean on it prove nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import assistant, call, result, system, user
from tests.support.strict_lists import chat_fault
from tests.support.strict_model import SCRIPT, STEPS, TURNS, StrictModel
from tests.support.strict_responses import responses_fault
from tests.support.upstream import Request

TWO = assistant(None, [call("call_1"), call("call_2")])
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "seen"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.mark.parametrize(
    ("messages", "words", "param"),
    [
        ([system(), user("a"), TWO, result("call_1", "x"), result("call_2", "y"), user("b")], None, None),
        ([system(), user("a"), TWO, result("call_2", "y"), result("call_1", "x")], None, None),
        ([user("a"), result("call_1", "x")], "must be a response to a preceeding message", "messages.[1].role"),
        ([user("a"), TWO, result("call_1", "x"), user("b")], "response messages: call_2", "messages.[3].role"),
        ([user("a"), TWO, result("call_1", "x")], "response messages: call_2", "messages.[3].role"),
        ([user("a"), TWO], "response messages: call_1, call_2", "messages.[2].role"),
        ([user("a"), TWO, result("call_1", "x"), result("call_1", "x")], "preceeding message", "messages.[3].role"),
        ([user("a"), assistant(None)], "expected a string, got null", "messages.[1].content"),
    ],
)
def test_chat_lists(messages: list[dict[str, Any]], words: str | None, param: str | None) -> None:
    fault = chat_fault(messages)
    assert (fault is None) == (words is None)
    if fault and words:
        assert words in fault[0]
        assert fault[1] == param


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([user("a"), THOUGHT, CALL, OUTPUT], None),
        ([user("a"), OUTPUT], "No tool call found for function call output with call_id call_1."),
        ([user("a"), OUTPUT, THOUGHT, CALL], "No tool call found for function call output"),
        ([user("a"), THOUGHT, CALL], "No tool output found for function call call_1."),
        ([user("a"), CALL, OUTPUT], "'fc_1' of type 'function_call' was provided without its required 'reasoning'"),
        ([user("a"), THOUGHT, user("b")], "'rs_1' of type 'reasoning' was provided without its required following"),
        ([user("a"), THOUGHT], "without its required following item"),
        ([THOUGHT, CALL, OUTPUT, THOUGHT, CALL, OUTPUT], "Duplicate item found with id rs_1."),
    ],
)
def test_responses_lists(items: list[dict[str, Any]], words: str | None) -> None:
    fault = responses_fault(items, {"fc_1": "rs_1"})
    assert (fault is None) == (words is None)
    assert (words or "") in (fault or "")


def test_the_model_counts_what_it_refuses() -> None:
    model = StrictModel(window=10)
    model(Request("POST", "/v1/chat/completions", (), b'{"messages":[{"role":"tool","tool_call_id":"x"}]}', 1, 0.0))
    assert len(model.refusals) == 1
    model(Request("POST", "/v1/responses", (), b'{"input":"Survey number 1: this is longer than ten"}', 1, 0.0))
    assert (model.overflows, model.taken) == (1, [])


def test_the_script_has_parallel_calls_and_an_end_in_each_turn() -> None:
    answers = {answer.name: answer for answer in SCRIPT.values()}
    assert len(answers) == TURNS * (STEPS + 1)
    assert {len(answer.calls) for answer in answers.values()} == {0, 1, 2}
