"""Which conversation a request belongs to, told by what it says: the matrix of clients' habits, end to end."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from tests.support import builders, replies
from tests.support.records import Records, eventually
from tests.support.serve import Served, served
from tests.support.session import FOLDED, NEVER, conversation, ok, post, sent, strict
from tests.support.upstream import Reset, ScriptedUpstream

NUMBERS = count(1)
Message = dict[str, Any]


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(strict) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url, policy__options=NEVER) as running:
        yield running


def start() -> list[Message]:
    return [builders.system(), builders.user(f"What does the gauge at station {next(NUMBERS)} say?")]


def answer(up: ScriptedUpstream, text: str | None = "noted", *calls: Any) -> None:
    up.enqueue(replies.json_reply(replies.completion(text, calls=calls)))


def called(up: ScriptedUpstream, proxy: Served, **arguments: Any) -> tuple[list[Message], str, str]:
    """A first turn that ended in a call: the list, the call's id, the conversation."""
    messages = start()
    call_id = f"call_{secrets.token_hex(12)}"
    answer(up, None, builders.call(call_id, **arguments))
    return messages, call_id, conversation(ok(proxy, messages))


def shape(proxy: Served, name: str) -> tuple[list[str], int]:
    """Verdicts of its exchanges, and how many branches it has."""
    records = Records(proxy.db)
    return [exchange.verdict for exchange, _ in records.exchanges(name)], len(records.branches(name))


def test_row_01_a_call_and_its_result(up: ScriptedUpstream, proxy: Served) -> None:
    messages, call_id, name = called(up, proxy, what="tide")
    messages += [builders.assistant(None, [builders.call(call_id, what="tide")]), builders.result(call_id, "3 m high")]
    assert conversation(ok(proxy, messages)) == name
    assert shape(proxy, name) == (["new", "continue"], 1)
    assert Records(proxy.db).texts(name).count("3 m high") == 1


def echo(call_id: str, arguments: str, **extra: Any) -> Message:
    call = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}}
    return {"role": "assistant", **extra, "tool_calls": [call]}


def bare(call_id: str) -> str:
    return call_id.replace("_", "")


ECHOES: dict[str, Any] = {
    "02 arguments spelt anew": lambda i: [echo(i, '{"a":1,"b":"x"}'), builders.result(i, "r")],
    "03 texts as parts": lambda i: [echo(i, '{"a": 1, "b": "x"}'), builders.result(i, builders.parts("r"))],
    "04 content null": lambda i: [echo(i, '{"a": 1, "b": "x"}', content=None), builders.result(i, "r")],
    "05 id normalised": lambda i: [
        echo(i.replace("_", ""), '{"a":1,"b":"x"}'),
        builders.result(i.replace("_", ""), "r"),
    ],
    "06 reasoning added": lambda i: [echo(i, '{"a":1,"b":"x"}', reasoning_content="hm"), builders.result(i, "r")],
}


@pytest.mark.parametrize("habit", ECHOES)
def test_rows_02_to_06_echoes_continue(up: ScriptedUpstream, proxy: Served, habit: str) -> None:
    messages, call_id, name = called(up, proxy, a=1, b="x")
    messages += ECHOES[habit](call_id)
    if "03" in habit:
        messages[1] = {"role": "user", "content": builders.parts(messages[1]["content"])}
    assert conversation(ok(proxy, messages)) == name
    assert shape(proxy, name) == (["new", "continue"], 1) and sent(up) == messages


def test_row_07_a_marker_that_moves(up: ScriptedUpstream, proxy: Served) -> None:
    messages, call_id, _ = called(up, proxy, what="x")
    marked = builders.parts(messages[1]["content"], cache_control={"type": "ephemeral"})
    name = conversation(ok(proxy, [messages[0], {"role": "user", "content": marked}]))
    result = builders.result(call_id, builders.parts("r", cache_control={"type": "ephemeral"}))
    later = [*messages, builders.assistant(None, [builders.call(call_id, what="x")]), result]
    assert conversation(ok(proxy, later)) == name and sent(up) == later


def test_row_08_and_conv_07_retries_after_failures(up: ScriptedUpstream, proxy: Served) -> None:
    """Three failures, then success, then once more because the client had given up: stored once, logged five times."""
    messages, since = start(), len(up.requests)
    for _ in range(3):
        up.enqueue(replies.error_reply(500, "hiccup"))
        assert post(proxy, messages, headers={"x-stainless-retry-count": "1"}).status_code == 500
    name = conversation(ok(proxy, messages))
    assert conversation(ok(proxy, messages)) == name
    assert len({request.body for request in up.requests[since:]}) == 1
    records = Records(proxy.db)
    assert records.texts(name).count(messages[1]["content"]) == 1
    outcomes = records.outcomes(name)
    assert [(one.outcome, one.status) for one in outcomes] == [("error", 500)] * 3 + [("ok", 200)] * 2
    assert [one.input for one in outcomes] == [0] * 3 + [outcomes[3].input] * 2 and outcomes[3].input > 0
    assert shape(proxy, name)[0][:4] == ["new", "retry", "retry", "retry"]


def test_row_09_cut_in_the_middle_then_again(up: ScriptedUpstream, proxy: Served) -> None:
    messages = start()
    events = replies.chat_events("partial", calls=[builders.call("c1", what="x")])
    up.enqueue(replies.stream_reply([*events[:3], Reset()]))
    first = post(proxy, messages, stream=True)
    name = conversation(first)
    assert conversation(ok(proxy, messages, stream=True)) == name
    assert shape(proxy, name)[0] == ["new", "retry"]
    later = [*messages, builders.assistant("noted"), builders.user("and?")]
    assert conversation(ok(proxy, later)) == name and shape(proxy, name)[0][-1] == "continue"


def test_row_10_the_client_leaves_and_goes_on_with_a_part(up: ScriptedUpstream, proxy: Served) -> None:
    messages = start()
    events = replies.chat_events("A long answer about the gauges, of which half is read.", size=27)
    up.enqueue(replies.stream_reply([*events[:2], 30.0]))
    body = builders.request(messages, stream=True, tools=[builders.tool()])
    head = {"authorization": "Bearer sk-one"}
    closed = up.closed.value
    with httpx.stream("POST", f"{proxy.base_url}/chat/completions", json=body, headers=head, timeout=20) as response:
        name = response.headers["x-undercliff-conversation"]
        next(response.iter_raw())
    eventually(lambda: up.closed.value > closed)
    later = [*messages, builders.assistant("A long answer about the ga"), builders.user("shorter")]
    assert conversation(ok(proxy, later)) == name


def test_row_11_two_at_once_go_on_apart(up: ScriptedUpstream, proxy: Served) -> None:
    messages = start()
    lists = []
    for letter in "ab":
        answer(up, None, builders.call(f"call_{secrets.token_hex(12)}", what=letter))
        call = ok(proxy, messages).json()["choices"][0]["message"]["tool_calls"]
        lists.append([*messages, builders.assistant(None, call), builders.result(call[0]["id"], f"only {letter}")])
    names = [conversation(ok(proxy, one)) for one in lists]
    for letter, one in zip("ba", lists, strict=True):
        assert f"only {letter}" not in json.dumps(one)
    for one, letter in zip(lists, "ab", strict=True):
        ok(proxy, [*one, builders.assistant("noted"), builders.user("go on")])
        assert f"only {'b' if letter == 'a' else 'a'}" not in up.requests[-1].body.decode()
    assert len({*names}) <= 2
    assert sum(len(Records(proxy.db).branches(name)) for name in set(names)) >= 2


def test_row_12_to_14_regenerate_and_go_back(up: ScriptedUpstream, proxy: Served) -> None:
    first, call_id, name = called(up, proxy, what="x")
    first += [builders.assistant(None, [builders.call(call_id, what="x")]), builders.result(call_id, "r")]
    ok(proxy, first)
    ok(proxy, [*first, builders.assistant("noted"), builders.user("second")])
    assert conversation(ok(proxy, first)) == name and sent(up) == first
    edited = [*first, builders.user("another second")]
    assert conversation(ok(proxy, edited)) == name and sent(up) == edited
    verdicts, branches = shape(proxy, name)
    assert verdicts[:3] == ["new", "continue", "continue"] and verdicts[3:] == ["regenerate", "fork"] and branches >= 2


def test_row_16_an_edit_in_place(up: ScriptedUpstream, proxy: Served) -> None:
    messages, call_id, name = called(up, proxy, what="x")
    messages += [builders.assistant(None, [builders.call(call_id, what="x")]), builders.result(call_id, "r")]
    said = f"The gauge at station {next(NUMBERS)} reads four metres and it is still rising with the wind."
    answer(up, said)
    ok(proxy, messages)
    messages += [builders.assistant(said), builders.user("more")]
    messages[1] = builders.user(messages[1]["content"] + " (edited)")
    assert conversation(ok(proxy, messages)) == name and sent(up) == messages
    assert shape(proxy, name)[1] == 1


def test_row_17_a_clock_in_the_system_message(up: ScriptedUpstream, proxy: Served) -> None:
    messages, names = start(), set()
    for hour in range(4):
        messages[0] = builders.system(f"You keep the tables. It is {hour} o'clock.")
        names.add(conversation(ok(proxy, messages)))
        assert sent(up) == messages
        messages += [builders.assistant("noted"), builders.user(f"hour {hour}")]
    (name,) = names
    assert shape(proxy, name)[1] == 1


def test_row_22_a_note_at_the_end_that_changes(up: ScriptedUpstream, proxy: Served) -> None:
    messages, names = start(), set()
    for number in range(3):
        note = builders.user(f"<environment>files open: {number}</environment>")
        said = f"The gauge at station {next(NUMBERS)} reads {number} mm, as it did in the last {number} tides."
        answer(up, said)
        names.add(conversation(ok(proxy, [*messages, note])))
        assert sent(up) == [*messages, note]
        messages += [builders.assistant(said), builders.user(f"question {number}")]
    (name,) = names
    assert shape(proxy, name)[1] == 1


def test_row_26_an_agent_clears_a_result_itself(up: ScriptedUpstream, proxy: Served) -> None:
    messages, call_id, name = called(up, proxy, what="x")
    text = builders.long_text(next(NUMBERS), 2000)
    messages += [builders.assistant(None, [builders.call(call_id, what="x")]), builders.result(call_id, text)]
    said = f"The gauge at station {next(NUMBERS)} reads four metres and it is still rising with the wind."
    answer(up, said)
    ok(proxy, messages)
    messages += [builders.assistant(said), builders.user("more")]
    messages[3] = builders.result(call_id, "[cleared]")
    assert conversation(ok(proxy, messages)) == name and sent(up) == messages
    assert shape(proxy, name)[1] == 1
    assert text in Records(proxy.db).texts(name)


def test_row_40_and_conv_06_another_key_is_another_tenant(up: ScriptedUpstream, proxy: Served) -> None:
    messages, head = start(), {"x-session-id": "shared", "x-ctx-conversation": "mine"}
    mine = conversation(ok(proxy, messages, headers=head))
    before = Records(proxy.db).texts(mine)
    theirs = conversation(ok(proxy, messages, headers={**head, "authorization": "Bearer sk-two"}))
    longer = [*messages, builders.assistant("noted"), builders.user("secret of two")]
    assert conversation(ok(proxy, longer, headers={**head, "authorization": "Bearer sk-two"})) == theirs != mine
    assert Records(proxy.db).texts(mine) == before


def test_conv_01_equal_beginnings_part_where_they_differ(up: ScriptedUpstream, proxy: Served) -> None:
    first = [builders.system(builders.long_text(1, 8000)), builders.user(f"Begin. {next(NUMBERS)}")]
    one, two = list(first), list(first)
    for number in range(4):
        for letter, messages in (("one", one), ("two", two)):
            ok(proxy, messages)
            assert sent(up) == messages
            messages += [builders.assistant("noted"), builders.user(f"{letter} says {number}")]
    names = {conversation(ok(proxy, messages)) for messages in (one, two)}
    rows = [row for name in names for row in Records(proxy.db).branches(name) if row.kind == "main"]
    assert len(rows) == 2


def test_conv_04_and_09_the_clients_list_is_the_truth(up: ScriptedUpstream) -> None:
    """Folded; then message 10 is changed and the rest is gone: no word of the summary. Then a gap in the middle."""
    with served(up.base_url, policy__options=NEVER, models={"*": {"window": 12_000}}) as proxy:
        messages = start()
        for _ in range(20):
            messages += [builders.assistant("noted"), builders.user(builders.long_text(next(NUMBERS), 1800))]
            reply = ok(proxy, messages)
        name = conversation(reply)
        assert FOLDED in up.requests[-1].body
        edited = [*messages[:9], builders.user("number ten, changed")]
        assert conversation(ok(proxy, edited)) == name
        assert sent(up) == edited
        assert shape(proxy, name)[1] == 2
        pruned = [builders.system("Another voice."), *messages[1:5], *messages[20:], builders.assistant("noted")]
        pruned.append(builders.user("and now?"))
        ok(proxy, pruned)
        gone = {message["content"] for message in messages[5:20]} - {"noted"}
        assert not any(text in up.requests[-1].body.decode() for text in gone)
        assert gone <= set(Records(proxy.db).texts(name))
