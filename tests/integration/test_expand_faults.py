"""What goes wrong while a reply comes in rounds: refusals, cuts, overflow, a client that leaves, restarts, forks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import builders, replies
from tests.support.expanding import BATCHED, NAME, SIZE, THEIRS, Talk, events, expand, reply, talking, text_of
from tests.support.serve import served, served_process
from tests.support.session import conversation, from_store, ok, post, raw_messages, strict
from tests.support.strict_lists import chat_fault
from tests.support.upstream import Gate, ScriptedUpstream

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


KEY = {"authorization": "Bearer sk-one"}


def refusal(status: int) -> Any:
    return replies.error_reply(status, "try again later", code="busy", headers=[("retry-after", "7")])


@BOTH
@pytest.mark.parametrize("status", [429, 500])
def test_a_refusal_in_round_two_is_the_answer_while_nothing_was_said(stream: bool, status: int) -> None:
    with talking(stream=stream) as talk:
        talk.up.enqueue(reply(None, [expand(id=talk.ids[0])], stream=stream), refusal(status))
        response = post(talk.proxy, [*talk.messages, builders.user("look")], stream=stream)
        assert response.status_code == status and response.headers["retry-after"] == "7"
        assert response.json()["error"]["code"] == "busy"
        rows = from_store(talk.proxy.db, lambda store: store.exchanges(conversation(ok(talk.proxy, talk.messages))))
        assert [o.outcome for _, o in rows if o][-3:] == ["ok", "error", "ok"]


def test_a_refusal_behind_words_ends_the_stream_with_the_providers_error() -> None:
    with talking(stream=True) as talk:
        talk.up.enqueue(reply("Let me look. ", [expand(id=talk.ids[0])], stream=True), refusal(429))
        response = post(talk.proxy, [*talk.messages, builders.user("look")], stream=True)
        *said, last = events(response.text)
        assert response.status_code == 200 and "[DONE]" not in said
        assert last["error"]["code"] == "busy" and "try again later" in last["error"]["message"]


@pytest.mark.parametrize("words", ["", "Let me look. "])
def test_a_provider_that_dies_in_round_two(words: str) -> None:
    with talking(stream=True) as talk:
        cut = replies.cut_stream([replies.event(replies.chunk({"content": "It "}))])
        talk.up.enqueue(reply(words, [expand(id=talk.ids[0])], stream=True), cut)
        response = post(talk.proxy, [*talk.messages, builders.user("look")], stream=True)
        last = events(response.text)[-1]
        assert response.status_code == 200 and last["error"]["code"] == "upstream_closed"
        talk.up.enqueue(reply(words, [expand(id=talk.ids[0])], stream=True), replies.close_without_a_byte(reset=True))
        response = post(talk.proxy, [*talk.messages, builders.user("look")], stream=True)
        assert (response.status_code, words) in ((502, ""), (200, words)) and "error" in response.text
        assert talk.say("are you there")["content"] == "noted"


@BOTH
def test_an_overflow_in_round_two_is_met_unseen(stream: bool) -> None:
    with talking(stream=stream) as talk:
        talk.messages += builders.step(7, builders.long_text(7, SIZE))
        talk.ask()
        talk.up.enqueue(
            reply("So. ", [expand(id=talk.ids[0])], stream=stream),
            replies.overflow_reply(900, 2000),
            reply("It reads 838.", stream=stream),
        )
        before = len(talk.up.requests)
        said = talk.say("look it up")
        assert said["content"] == "So. It reads 838." and len(talk.up.requests) - before == 3
        bodies = [request.body for request in talk.up.requests[-2:]]
        assert len(bodies[1]) < len(bodies[0]) and chat_fault(talk.window()) is None
        assert any(builders.long_text(0, SIZE).rstrip("\n") in text_of(message) for message in talk.window())


def test_a_client_that_leaves_between_rounds_stops_all_of_it() -> None:
    with talking(stream=True) as talk:
        gate = Gate()
        talk.up.enqueue(reply("Let me look. ", [expand(id=talk.ids[0])], stream=True), replies.stream_reply([gate]))
        body = builders.request([*talk.messages, builders.user("look")], stream=True, tools=[builders.tool()])
        closed = talk.up.closed.value
        with httpx.stream(
            "POST", f"{talk.proxy.base_url}/chat/completions", json=body, headers=KEY, timeout=30
        ) as response:
            assert "Let me" in next(response.iter_text())
            end = time.monotonic() + 10
            while len(talk.up.requests) < 4 and time.monotonic() < end:
                time.sleep(0.01)
        talk.up.closed.wait_sync(closed + 1)
        assert len(talk.up.requests) == 4
        gate.open()


@BOTH
def test_hidden_pairs_survive_a_restart_and_another_replica(stream: bool, tmp_path: Path) -> None:
    """The window of the next request is the same on a proxy that has only the store."""
    db = tmp_path / "x.db"
    with ScriptedUpstream(strict) as up:
        with served(up.base_url, db, policy__options=BATCHED) as proxy:
            talk = Talk(proxy, up, stream=stream)
            calls = [THEIRS, expand(id=talk.ids[0])]
            up.enqueue(reply("A. ", [expand("call_exp00000", id=talk.ids[1], lines="1-3")], stream=stream))
            up.enqueue(reply("B.", calls, stream=stream))
            talk.say("look it up")
            talk.messages.append(builders.result(THEIRS["id"], "the log"))
            talk.ask()
            wanted = raw_messages(up.requests[-1].body)
            talk.messages.append(builders.user("thanks"))
            ok(proxy, talk.messages)
            after = up.requests[-1].body
        for _ in range(2):
            with served(up.base_url, db, policy__options=BATCHED) as proxy:
                ok(proxy, talk.messages)
                assert up.requests[-1].body == after and raw_messages(after)[: len(wanted)] == wanted
                fork = [*talk.messages[:-1], builders.user("something else")]
                ok(proxy, fork)
                assert raw_messages(up.requests[-1].body)[:-1] == raw_messages(after)[:-1]
                assert [tool["function"]["name"] for tool in up.requests[-1].json()["tools"]] == ["look", NAME]


def test_nothing_is_lost_by_a_kill_between_rounds(tmp_path: Path) -> None:
    with ScriptedUpstream(strict) as up, served_process(up.base_url, tmp_path, policy__options=BATCHED) as proxy:
        talk = Talk(proxy, up)
        gate = Gate()
        up.enqueue(reply(None, [expand(id=talk.ids[0])], stream=False), replies.stream_reply([gate]))
        talk.messages.append(builders.user("look it up"))
        body = builders.request(talk.messages, tools=[builders.tool()])
        with httpx.Client(timeout=0.5) as client, pytest.raises(httpx.HTTPError):
            client.post(f"{proxy.base_url}/chat/completions", json=body, headers=KEY)
        proxy.restart()
        gate.open()
        up.enqueue(reply(None, [expand(id=talk.ids[0])], stream=False), reply("It reads 838.", stream=False))
        assert talk.ask()["content"] == "It reads 838."
        assert builders.long_text(0, SIZE).rstrip("\n") in text_of(talk.window()[-1])
