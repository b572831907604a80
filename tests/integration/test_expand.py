"""Expand inside a live reply, over real sockets: what the model gets, the client sees and the next window holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from proxy.cli.commands import app
from proxy.measuring import Measured, Measurer
from tests.support import builders, replies
from tests.support.expanding import NAME, OTHER, SIZE, THEIRS, Talk, events, expand, reply, talking, text_of
from tests.support.records import Records
from tests.support.serve import served
from tests.support.session import EAGER, conversation, from_store, ok, raw_messages, strict
from tests.support.strict_lists import chat_fault
from tests.support.upstream import ScriptedUpstream

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@BOTH
def test_mask_02_row_44_a_call_alone_is_answered_unseen_and_stays_in_later_windows(stream: bool) -> None:
    """MASK-02, row 44: the client sees only the answer; the hidden pair stands, paired, in the next request."""
    with talking(stream=stream) as talk:
        item = talk.ids[0]
        talk.up.enqueue(reply(None, [expand(id=item)], stream=stream), reply("It reads 838.", stream=stream))
        said = talk.say("look it up")
        assert said.get("tool_calls") is None and text_of(said) == "It reads 838."
        original = builders.long_text(0, SIZE)
        assert original.rstrip("\n") in text_of(talk.window()[-1]) and talk.window()[-1]["role"] == "tool"
        before = raw_messages(talk.up.requests[-1].body)
        talk.say("thanks")
        window = raw_messages(talk.up.requests[-1].body)
        assert window[: len(before)] == before, "what the provider cached is sent again, byte for byte"
        assert len(window) == len(before) + 2 and chat_fault(talk.window()) is None
        talk.say("and more")
        assert raw_messages(talk.up.requests[-1].body)[: len(window)] == window


@BOTH
@pytest.mark.parametrize("order", ["first", "last", "middle"])
def test_row_45_beside_the_clients_own_calls(stream: bool, order: str) -> None:
    """Row 45: the client gets only its calls, with clean indexes; both pairs are in the next window, in order."""
    with talking(stream=stream) as talk:
        ours = expand(id=talk.ids[0])
        calls = {"first": [ours, THEIRS, OTHER], "last": [THEIRS, OTHER, ours], "middle": [THEIRS, ours, OTHER]}[order]
        talk.up.enqueue(reply("I check.", calls, stream=stream))
        said = talk.say("go on")
        assert said["content"] == "I check." and said["tool_calls"] == [THEIRS, OTHER]
        talk.messages += [builders.result(THEIRS["id"], "the log says no"), builders.result(OTHER["id"], "no map")]
        talk.ask()
        window = talk.window()
        ids = [call["id"] for call in calls]
        assert [call["id"] for call in window[-4]["tool_calls"]] == ids and window[-4]["content"] == "I check."
        assert [message["tool_call_id"] for message in window[-3:]] == ids
        assert builders.long_text(0, SIZE).rstrip("\n") in text_of(window[-3 + ids.index(ours["id"])])
        before = raw_messages(talk.up.requests[-1].body)
        talk.say("thanks")
        assert raw_messages(talk.up.requests[-1].body)[: len(before)] == before


def test_results_that_come_back_in_another_order_keep_it_and_pair_up() -> None:
    with talking() as talk:
        talk.up.enqueue(reply(None, [THEIRS, expand(id=talk.ids[0]), OTHER], stream=False))
        talk.say("go on")
        talk.messages += [builders.result(OTHER["id"], "no map"), builders.result(THEIRS["id"], "the log says no")]
        talk.ask()
        assert chat_fault(talk.window()) is None and len(talk.window()) == len(talk.messages)


@BOTH
def test_two_rounds_in_the_middle_of_a_text(stream: bool) -> None:
    """Text goes on over the rounds as one message; in later windows it stands as it was said."""
    with talking(stream=stream) as talk:
        talk.up.enqueue(
            reply("Let me look. ", [expand("call_a000001", id=talk.ids[0], lines="1-2")], stream=stream),
            reply("And here. ", [expand("call_b000002", id=talk.ids[1], query="gauge")], stream=stream),
            reply("Done.", [THEIRS], stream=stream),
        )
        said = talk.say("look it up")
        assert said["content"] == "Let me look. And here. Done." and said["tool_calls"] == [THEIRS]
        talk.messages.append(builders.result(THEIRS["id"], "the log"))
        talk.ask()
        texts = [message.get("content") for message in talk.window()[-6:]]
        assert (texts[0], texts[2], texts[4]) == ("Let me look. ", "And here. ", "Done.")
        assert chat_fault(talk.window()) is None


@BOTH
def test_parallel_calls_are_answered_in_order(stream: bool) -> None:
    with talking(stream=stream) as talk:
        calls = [expand("call_a000001", id=talk.ids[0], lines="1"), expand("call_b000002", id=talk.ids[1], lines="1")]
        talk.up.enqueue(reply(None, calls, stream=stream), reply("Both.", stream=stream))
        assert talk.say("look it up")["content"] == "Both."
        first, second = talk.window()[-2:]
        assert [first["tool_call_id"], second["tool_call_id"]] == ["call_a000001", "call_b000002"]
        assert "row 0: gauge" in first["content"] and "row 1: gauge" in second["content"]


@BOTH
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{broken", "not JSON"),
        ("[1]", "not an object"),
        ("{}", "no id given"),
        ('{"id": "aaaaaaaaaaaa"}', "no id 'aaaaaaaaaaaa' in this conversation"),
        ('{"id": "%s", "lines": "many"}', "10-40"),
        ('{"id": "%s", "query": "zzz"}', "no line holds 'zzz'"),
    ],
)
def test_what_cannot_be_served_is_said_in_plain_words(stream: bool, arguments: str, words: str) -> None:
    with talking(stream=stream) as talk:
        text = arguments.replace("%s", talk.ids[0])
        talk.up.enqueue(
            reply(None, [replies.tool_call("call_exp00001", NAME, text)], stream=stream), reply("I see.", stream=stream)
        )
        assert talk.say("look it up")["content"] == "I see."
        assert words in talk.window()[-1]["content"]
        json.loads(talk.window()[-2]["tool_calls"][0]["function"]["arguments"])


def test_another_conversation_and_another_team_cannot_be_reached() -> None:
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__options=EAGER) as proxy:
        theirs = Talk(proxy, up, headers={"authorization": "Bearer sk-other"})
        mine = Talk(proxy, up)
        assert set(theirs.ids).isdisjoint(mine.ids)
        up.enqueue(reply(None, [expand(id=theirs.ids[0])], stream=False), reply("no", stream=False))
        mine.say("look it up")
        assert f"no id {theirs.ids[0]!r} in this conversation" in mine.window()[-1]["content"]


@BOTH
def test_mask_05_the_same_text_three_times_in_one_turn(stream: bool) -> None:
    """MASK-05: it stays in full for that turn, and is not given again; the model is told."""
    with talking(stream=stream, policy__options=EAGER) as talk:
        asks = [reply(None, [expand(f"call_exp0000{n}", id=talk.ids[0])], stream=stream) for n in range(3)]
        talk.up.enqueue(*asks, reply("Fine.", [THEIRS], stream=stream))
        talk.say("look it up")
        window = talk.window()
        original = builders.long_text(0, SIZE).rstrip("\n")
        assert [original in text_of(message) for message in window[-6:]] == [False, True, False, False, False, False]
        assert all("already shown in full above" in window[place]["content"] for place in (-3, -1))
        for number in range(3):  # the turn goes on: what was expanded stays, though all else is masked at once
            talk.messages += [
                builders.result(talk.messages[-1]["tool_calls"][0]["id"], builders.long_text(50 + number))
            ]
            talk.up.enqueue(reply(None, [replies.tool_call(f"call_more{number}x", "look", {})], stream=stream))
            talk.ask()
            assert any(original in text_of(message) for message in talk.window())
        assert b"output omitted from history" in talk.up.requests[-1].body


@BOTH
def test_twenty_calls_in_a_row_come_to_an_end(stream: bool) -> None:
    """The model is told to go on, then has no tool to call; the client gets an end either way."""
    with talking(stream=stream, expand__rounds=3) as talk:
        asks = [
            reply("x", [expand(f"call_exp000{n:02}", id=talk.ids[0], lines=str(n + 1))], stream=stream)
            for n in range(20)
        ]
        before = len(talk.up.requests)
        talk.up.enqueue(*asks)
        said = talk.say("look it up")
        assert len(talk.up.requests) - before == 5 and said == {**said, "content": "x" * 5}
        assert said.get("tool_calls") is None
        bodies = [request.json() for request in talk.up.requests[-2:]]
        assert "nothing more can be expanded" in bodies[1]["messages"][-1]["content"]
        assert "tool_choice" not in bodies[0] and bodies[1]["tool_choice"] == "none"
        assert [tool["function"]["name"] for tool in bodies[1]["tools"]] == ["look", NAME]
        talk.up.forget_script()
        talk.up.handler = strict
        talk.say("thanks")


@BOTH
def test_usage_is_all_output_and_the_last_input_and_each_call_is_recorded_by_itself(stream: bool) -> None:
    with talking(stream=stream) as talk:
        ask = reply(None, [expand(id=talk.ids[0])], stream=stream, prompt=700, output=9)
        talk.up.enqueue(ask, reply("Done.", stream=stream, prompt=900, output=4))
        extra = {"stream_options": {"include_usage": True}} if stream else {}
        response = ok(talk.proxy, [*talk.messages, builders.user("look")], stream=stream, **extra)
        found = (
            [d["usage"] for d in events(response.text) if d != "[DONE]" and d.get("usage")]
            if stream
            else [response.json()["usage"]]
        )
        assert [(usage["prompt_tokens"], usage["completion_tokens"]) for usage in found] == [(900, 13)]
        rows = from_store(talk.proxy.db, lambda store: store.exchanges(conversation(response)))
        mine = [(row.verdict, outcome) for row, outcome in rows][-2:]
        assert [verdict for verdict, _ in mine] == ["continue", "expand"]
        assert [(o.input, o.output, o.outcome) for _, o in mine if o] == [(700, 9, "ok"), (900, 4, "ok")]


def test_what_stands_for_a_copy_names_the_original_and_never_the_tool() -> None:
    """A later window leaves out again what was expanded: its stub says what it is, not how it came."""
    with talking(policy__options=EAGER) as talk:
        item = talk.ids[0]
        talk.up.enqueue(reply(None, [expand(id=item)], stream=False), reply("It reads 838.", stream=False))
        talk.say("look it up")
        for number in range(4):
            talk.messages += builders.step(20 + number, builders.long_text(20 + number, SIZE))
            talk.say("and now")
        (copy,) = [m for m in talk.window() if m.get("tool_call_id") == "call_exp00001"]
        assert copy["content"].startswith("[") and f"id {item}" in copy["content"] and len(copy["content"]) < SIZE // 2
        assert "look" in copy["content"] and NAME not in copy["content"]


def test_what_the_model_came_back_for_is_shown_and_exported(tmp_path: Path) -> None:
    db = tmp_path / "store.db"
    with talking(db) as talk:
        first, second, *_ = talk.ids
        calls = [expand("call_a000001", id=first), expand("call_b000002", id=second), expand("call_c000003", id="none")]
        again = [expand("call_d000004", id=first, lines="1-2")]
        talk.up.enqueue(*[reply(None, asked, stream=False) for asked in (calls, again)], reply("So.", stream=False))
        talk.say("look it up")
    run = CliRunner()
    (name,) = Records(db).conversations()
    shown = json.loads(run.invoke(app, ["show", name[:8], "--json", "--db", str(db)]).stdout)
    assert shown["importance"] == {first: 2.0, second: 1.0}
    exported = run.invoke(app, ["export", "--db", str(db)]).stdout.splitlines()
    assert any('"expanded"' in line and first in line for line in exported)


def test_perf_what_was_expanded_does_not_make_the_list_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    measure = Measurer._measure

    def counted(self: Measurer, *given: Any) -> Measured:
        made = measure(self, *given)
        read.append(made.fresh)
        return made

    monkeypatch.setattr(Measurer, "_measure", counted)
    with talking() as talk:
        for _ in range(3):
            talk.up.enqueue(reply(None, [expand(id=talk.ids[0])], stream=False), reply("found", stream=False))
            talk.say("look it up")
    assert sum(read) <= len(talk.messages) + 2 * 3 + 2, read
