from __future__ import annotations

import json

from proxy.demo.pairing import check_pairing
from proxy.demo.provider import Answer
from proxy.demo.session import FACTS, LAST_ASK, Shape, make_session


def test_same_seed_same_bytes() -> None:
    assert make_session(7) == make_session(7)
    assert make_session(7) != make_session(8)


def test_the_script_walks_the_whole_session_by_its_last_message() -> None:
    session = make_session(3, Shape(turns=(3, 2), parallel_every=2))
    script, results = session.script(), session.results()
    messages: list[dict[str, object]] = [{"role": "system", "content": session.system}]
    calls = 0
    for turn in session.turns:
        messages.append({"role": "user", "content": turn.ask})
        while True:
            answer = script(messages)
            calls += 1
            if not answer.calls:
                assert answer.text == turn.answer
                messages.append({"role": "assistant", "content": answer.text})
                break
            made = [{"id": call.id, "function": {"name": call.name}} for call in answer.calls]
            messages.append({"role": "assistant", "content": answer.text, "tool_calls": made})
            for call in answer.calls:
                json.loads(call.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": results[call.id]})
    assert check_pairing(messages) is None
    assert calls == 3 + 2 + 2 + len(session.turns)
    assert script([{"role": "user", "content": "something else"}]) == Answer("Understood.")
    assert script([{"role": "user", "content": [{"type": "text", "text": session.turns[0].ask}]}]).calls


def test_shape_of_the_default_session() -> None:
    session = make_session()
    sizes = [len(text) for text in session.results().values()]
    assert min(sizes) > 3_500 and max(sizes) < 13_000
    shown = "".join(session.results().values())
    assert all(shown.count(error) == 1 for error in session.errors) and len(session.errors) >= 6
    asked = " ".join(turn.ask for turn in session.turns[:2])
    assert all(fact.text in asked for fact in FACTS)
    assert all(fact.text not in LAST_ASK for fact in FACTS)
    paths = [call.arguments for turn in session.turns for step in turn.steps for call in step.calls]
    assert sum("ledger.py" in path for path in paths) >= 5


def test_cut_logs_hide_their_error() -> None:
    session = make_session(7, Shape(turns=(16,), parallel_every=0, cut_logs=(1,), asks_at_end=False))
    shown = "".join(session.results().values())
    assert [error in shown for error in session.errors] == [True, False, True, True]
