"""Calls and their results stay together, whatever the window leaves out. The provider refuses every orphan."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from tests.support import builders, replies
from tests.support.records import Records
from tests.support.serve import served
from tests.support.session import EAGER, FOLDED, NEVER, OMITTED, conversation, ok, post, sent, step_answer, strict
from tests.support.session import tokens_of as tokens
from tests.support.upstream import Action, Request, ScriptedUpstream

NUMBERS = count(1)
Message = dict[str, Any]


def user() -> Message:
    return builders.user(f"station {next(NUMBERS)}")


def wordy(number: int, size: int = 1200) -> list[Message]:
    """A step that no mask makes smaller: only a fold does."""
    call_id = f"call_{number:04d}"
    text = builders.long_text(number, size)
    return [
        builders.assistant(text, [builders.call(call_id, what=f"thing {number}")]),
        builders.result(call_id, f"seen {number}"),
    ]


@pytest.mark.parametrize("window", range(9000, 9900, 150))
def test_pair_01_the_cut_never_falls_inside_a_pair(window: int) -> None:
    """Many windows, so that the budget ends at every place of a pair; the next turns pass too."""
    with (
        ScriptedUpstream(strict) as up,
        served(up.base_url, policy__options=NEVER, models={"*": {"window": window}}) as proxy,
    ):
        messages = [builders.system(), user()]
        for number in range(29):
            messages += wordy(number)
        ok(proxy, messages)
        messages += [builders.assistant("noted"), builders.user("go on")]
        ok(proxy, messages)
        assert FOLDED in up.requests[-1].body
        for number in range(30, 36):
            step = wordy(number)
            up.enqueue(step_answer(step, tokens(up.requests[-1].body)))
            ok(proxy, messages)
            messages += step
        assert len(up.requests) == 8  # nothing was refused, so nothing was sent twice


def lenient(request: Request) -> Action:
    return replies.json_reply(replies.completion("noted", prompt=tokens(request.body)))


def test_pair_04_an_open_call_is_left_as_it_is() -> None:
    """The list of the client, whole; no result is invented; nothing of it is torn apart later."""
    with (
        ScriptedUpstream(lenient) as up,
        served(up.base_url, policy__options=NEVER, models={"*": {"window": 6000}}) as proxy,
    ):
        opened = builders.assistant(None, [builders.call("c1", what="never answered")])
        messages = [builders.system(), user(), opened, builders.user("forget that")]
        ok(proxy, messages)
        assert sent(up) == messages
        for number in range(40):
            messages += [builders.assistant("noted"), builders.user(builders.long_text(number, 800))]
            ok(proxy, messages)
            got = sent(up)
            assert all(message["role"] != "tool" for message in got)
            if opened in got:
                assert got[got.index(opened) + 1] == builders.user("forget that")
            assert got[-1] == messages[-1]
        assert FOLDED in up.requests[-1].body and opened not in got


def test_pair_05_equal_ids_are_three_results() -> None:
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__options=EAGER) as proxy:
        messages = [user()]
        for number, size in enumerate((200, 6000, 300)):
            call = builders.call("shell:0", "shell", what=f"{number}")
            messages += [builders.assistant(None, [call]), builders.result("shell:0", builders.long_text(number, size))]
            up.enqueue(replies.json_reply(replies.completion("noted", prompt=500)))
            reply = ok(proxy, messages)
            messages += [builders.assistant("noted"), builders.user(f"next {number}")]
        reply = ok(proxy, messages)
        got = [message["content"] for message in sent(up) if message["role"] == "tool"]
        assert [OMITTED.decode() in text for text in got] == [False, True, False]
        texts = Records(proxy.db).texts(conversation(reply))
        for number, size in enumerate((200, 6000, 300)):
            assert texts.count(builders.long_text(number, size)) == 1


ODD = {"type": "strange_use", "id": "odd_1", "input": {"q": "x" * 3000}}
ODD_RESULT = {"type": "strange_result", "strange_use_id": "odd_1", "content": "y" * 3000}


def test_pair_03_unknown_blocks_are_whole_or_gone() -> None:
    with (
        ScriptedUpstream(lenient) as up,
        served(up.base_url, policy__options=EAGER, models={"*": {"window": 8000}}) as proxy,
    ):
        blocks = [
            {"role": "assistant", "content": [{"type": "text", "text": "let me see"}, ODD]},
            {"role": "user", "content": [ODD_RESULT, {"type": "text", "text": "here"}]},
        ]
        messages = [builders.system(), user(), *blocks]
        ok(proxy, messages)
        for number in range(30):
            messages += [builders.assistant("noted"), builders.user(builders.long_text(number, 900))]
            ok(proxy, messages)
            body = json.dumps(sent(up))
            halves = (json.dumps(ODD) in body, json.dumps(ODD_RESULT) in body)
            assert halves in ((True, True), (False, False)), number
            assert halves[0] or ('"odd_1"' not in body)
        assert halves == (False, False) and FOLDED in up.requests[-1].body


def test_row_39_results_in_another_order() -> None:
    """CLIENTS row 39: parallel calls answered the other way round: one branch, a valid order."""
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__options=EAGER) as proxy:
        calls = [builders.call("a1", what="a"), builders.call("a2", what="b")]
        results = [builders.result("a2", builders.long_text(1)), builders.result("a1", builders.long_text(2))]
        up.enqueue(replies.json_reply(replies.completion(None, calls=calls)))
        start = [builders.system(), user()]
        first = ok(proxy, start)
        messages = [*start, builders.assistant(None, calls), *results]
        ok(proxy, messages)
        last = ok(proxy, [*messages, builders.assistant("noted"), builders.user("go on")])
        assert [m.get("tool_call_id") for m in sent(up)[3:5]] == ["a2", "a1"] and OMITTED in up.requests[-1].body
        assert conversation(first) == conversation(last)
        assert len(Records(proxy.db).branches(conversation(last))) == 1


def test_the_provider_of_these_tests_refuses_orphans() -> None:
    with ScriptedUpstream(strict) as up, served(up.base_url) as proxy:
        assert post(proxy, [user(), builders.assistant(None, [builders.call("c1")]), user()]).status_code == 400
