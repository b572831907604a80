from __future__ import annotations

from typing import Any

import pytest

from proxy.demo.pairing import check_pairing
from tests.support.builders import assistant, call, result, system, user

ORPHAN_WORDS = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
)
CALLS = [call("a"), call("b")]


@pytest.mark.parametrize(
    "messages",
    [
        [user("hi")],
        [system(), user("hi"), assistant(None, CALLS), result("b", "2"), result("a", "1"), assistant("done")],
        [user("hi"), *[assistant(None, [call("a")]), result("a", "x")] * 2],
    ],
)
def test_valid_lists_pass(messages: list[Any]) -> None:
    assert check_pairing(messages) is None


@pytest.mark.parametrize(
    ("messages", "text", "param"),
    [
        (
            [user("hi"), result("a", "x")],
            ORPHAN_WORDS,
            "messages.[1].role",
        ),
        (
            [user("hi"), assistant(None, CALLS), result("a", "x"), user("next")],
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: b",
            "messages.[3].role",
        ),
        (
            [user("hi"), assistant(None, CALLS)],
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: a, b",
            "messages.[2].role",
        ),
        (
            [user("hi"), assistant(None, [call("a")]), result("a", "1"), result("a", "again")],
            ORPHAN_WORDS,
            "messages.[3].role",
        ),
        (
            [assistant(None)],
            "Invalid value for 'content': expected a string, got null.",
            "messages.[0].content",
        ),
    ],
)
def test_broken_lists_are_refused_in_a_providers_words(messages: list[Any], text: str, param: str) -> None:
    refusal = check_pairing(messages)
    assert refusal is not None
    assert (refusal.message, refusal.param, refusal.code, refusal.status) == (text, param, None, 400)


def test_what_is_no_message_is_refused() -> None:
    refusal = check_pairing(["hi"])
    assert refusal is not None and "messages[0].role" in refusal.message
