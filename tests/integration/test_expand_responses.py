"""Expand in Responses form over real sockets: one response object, numbers that run on, pairs in later windows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import builders, replies
from tests.support import responses_events as events
from tests.support.expanding import BATCHED, NAME, SIZE
from tests.support.serve import Served, served
from tests.support.upstream import Action, Request, ScriptedUpstream

BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False}
THEIRS = events.call_item("fc_theirs", "call_theirs01", "look", '{"what":"log"}')
_ID = re.compile(rb"\bid ([a-z2-7]{12})")


def ours(call_id: str, **arguments: Any) -> dict[str, Any]:
    return events.call_item(f"fc_{call_id}", call_id, NAME, json.dumps(arguments))


def answer(items: Sequence[dict[str, Any]], name: str, *, stream: bool, tokens: int = 100, output: int = 7) -> Action:
    whole = events.response(name, items, events.usage(tokens, output), tools=[TOOL, {"type": "function", "name": NAME}])
    return replies.stream_reply(events.reply_events(whole)) if stream else replies.json_reply(whole)


def plain(request: Request) -> Action:
    """Refuses what does not pair up, as the provider does."""
    items = request.json()["input"]
    for kind, other in (("function_call_output", "function_call"), ("function_call", "function_call_output")):
        known = {item.get("call_id") for item in items if item.get("type") == other}
        for item in items:
            if item.get("type") == kind and item["call_id"] not in known:
                return replies.error_reply(400, f"No counterpart found for {kind} {item['call_id']}.", param="input")
    return answer([events.message_item("msg_n", "noted")], "resp_n", stream=bool(request.json().get("stream")))


class Talk:
    def __init__(self, proxy: Served, up: ScriptedUpstream, *, stream: bool) -> None:
        self.proxy, self.up, self.stream = proxy, up, stream
        self.items: list[Any] = [{"role": "user", "content": "read"}]
        for number in range(3):
            call = events.call_item(f"fc_{number}", f"call_{number:06}a", "look", json.dumps({"what": number}))
            output = {
                "type": "function_call_output",
                "call_id": call["call_id"],
                "output": builders.long_text(number, SIZE),
            }
            self.items += [call, output]
        self.say("and now")
        self.say("what else")
        self.ids = [found.decode() for found in dict.fromkeys(_ID.findall(up.requests[-1].body))]

    def say(self, text: str) -> dict[str, Any]:
        self.items.append({"role": "user", "content": text})
        return self.ask()

    def ask(self) -> dict[str, Any]:
        body = {"model": "scripted-1", "input": self.items, "tools": [TOOL], "stream": self.stream}
        headers = {"authorization": "Bearer sk-one"}
        self.response = httpx.post(f"{self.proxy.base_url}/responses", json=body, headers=headers, timeout=30)
        assert self.response.status_code == 200, self.response.text
        whole = documents(self.response.text)[-1]["response"] if self.stream else self.response.json()
        self.items += whole["output"]
        found: dict[str, Any] = whole
        return found

    def window(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.up.requests[-1].json()["input"]
        return found


def documents(stream: str) -> list[Any]:
    return [json.loads(part.partition("data: ")[2]) for part in stream.split("\n\n") if part]


@contextmanager
def talking(db: Path | None = None, *, stream: bool) -> Iterator[Talk]:
    with ScriptedUpstream(plain) as up, served(up.base_url, db, policy__options=BATCHED) as proxy:
        yield Talk(proxy, up, stream=stream)


@BOTH
def test_mask_02_rounds_are_one_response_and_the_pair_stays(stream: bool) -> None:
    with talking(stream=stream) as talk:
        first = [
            events.reasoning_item("rs_1", "secret"),
            events.message_item("msg_1", "Let me look."),
            ours("call_exp001", id=talk.ids[0]),
        ]
        second = [events.reasoning_item("rs_2", "more"), events.message_item("msg_2", "It reads 838.")]
        talk.up.enqueue(
            answer(first, "resp_1", stream=stream), answer(second, "resp_2", stream=stream, tokens=300, output=5)
        )
        whole = talk.say("look it up")
        assert whole["id"] == "resp_1" and whole["usage"] == events.usage(300, 12) and whole["tools"] == [TOOL]
        assert [item["id"] for item in whole["output"]] == ["rs_1", "msg_1", "rs_2", "msg_2"]
        assert NAME not in talk.response.text and "exp001" not in talk.response.text
        if stream:
            seen = documents(talk.response.text)
            assert [part["sequence_number"] for part in seen] == list(range(len(seen)))
        inside = talk.window()
        assert [item.get("type") for item in inside[-4:]] == [
            "reasoning",
            "message",
            "function_call",
            "function_call_output",
        ]
        assert builders.long_text(0, SIZE).rstrip("\n") in inside[-1]["output"]
        talk.say("thanks")
        after = talk.window()
        assert [item.get("id") for item in after[-7:]] == [
            "rs_1",
            "msg_1",
            "fc_call_exp001",
            None,
            "rs_2",
            "msg_2",
            None,
        ]
        assert after[-4] == inside[-1] and after[: len(inside)] == inside


@BOTH
def test_row_45_mixed_calls_and_a_restart(stream: bool, tmp_path: Path) -> None:
    """Row 45: the client's call alone reaches it; both pairs stand in the next window, also on another replica."""
    db = tmp_path / "x.db"
    with ScriptedUpstream(plain) as up:
        with served(up.base_url, db, policy__options=BATCHED) as proxy:
            talk = Talk(proxy, up, stream=stream)
            items = [
                events.reasoning_item("rs_1", "s"),
                ours("call_exp001", id=talk.ids[0]),
                THEIRS,
                ours("call_exp002", id=talk.ids[1]),
            ]
            up.enqueue(answer(items, "resp_1", stream=stream))
            whole = talk.say("go on")
            assert [item["id"] for item in whole["output"]] == ["rs_1", "fc_theirs"]
            talk.items.append({"type": "function_call_output", "call_id": "call_theirs01", "output": "the log"})
            talk.ask()
            window = talk.window()[-7:]
            calls = ["call_exp001", "call_theirs01", "call_exp002"]
            assert [item.get("call_id") for item in window] == [None, *calls, *calls]
            talk.items.append({"role": "user", "content": "thanks"})
            before = list(talk.items)
            talk.ask()
            sent = up.requests[-1].body
        with served(up.base_url, db, policy__options=BATCHED) as proxy:
            talk.proxy, talk.items = proxy, before
            talk.ask()
            assert up.requests[-1].body == sent


@BOTH
def test_nothing_before_the_call(stream: bool) -> None:
    """The pair stands behind what the client sent last."""
    with talking(stream=stream) as talk:
        talk.up.enqueue(answer([ours("call_exp001", id=talk.ids[0], lines="1")], "resp_1", stream=stream))
        talk.say("look it up")
        talk.say("thanks")
        assert [item.get("call_id") for item in talk.window()[-5:]] == [None, "call_exp001", "call_exp001", None, None]


def test_a_refusal_behind_words_ends_the_stream_with_an_error() -> None:
    with talking(stream=True) as talk:
        first = [events.message_item("msg_1", "Let me look."), ours("call_exp001", id=talk.ids[0])]
        refused = replies.error_reply(429, "try again later", code="busy")
        talk.up.enqueue(answer(first, "resp_1", stream=True), refused)
        talk.items.append({"role": "user", "content": "x"})
        body = {"model": "scripted-1", "input": talk.items, "tools": [TOOL], "stream": True}
        response = httpx.post(f"{talk.proxy.base_url}/responses", json=body, headers={"authorization": "Bearer sk-one"})
        seen = documents(response.text)
        assert [part["type"] for part in seen[-2:]] == ["error", "response.failed"]
        assert seen[-2]["error"]["code"] == "busy" and seen[-1]["response"]["error"]["code"] == "busy"
        assert [part["sequence_number"] for part in seen] == list(range(len(seen))) and len(seen) > 5
        assert seen[-1]["response"]["id"] == seen[0]["response"]["id"] == "resp_1"


@BOTH
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("sealed", ["more", None], ids=["sealed", "unsealed"])
def test_a_chain_behind_hidden_rounds_stands_on_all_of_them(
    stream: bool, sealed: str | None, is_restarted: bool, tmp_path: Path
) -> None:
    """The client knows the first round's name only; at the provider that one ends with a call without an answer."""
    with ScriptedUpstream(plain) as up, ExitStack() as stack:
        first = stack.enter_context(ExitStack())
        proxy = first.enter_context(served(up.base_url, tmp_path / "x.db", policy__options=BATCHED))
        talk = Talk(proxy, up, stream=stream)
        second = [events.reasoning_item("rs_2", sealed), events.message_item("msg_2", "It reads 838.")]
        talk.up.enqueue(
            answer([ours("call_exp001", id=talk.ids[0])], "resp_1", stream=stream),
            answer(second, "resp_2", stream=stream),
        )
        name = talk.say("look it up")["id"]
        body = {"model": "scripted-1", "tools": [TOOL], "previous_response_id": name, "input": "thanks"}
        body["stream"] = stream
        if is_restarted:
            first.close()
            talk.proxy = stack.enter_context(served(up.base_url, tmp_path / "x.db", policy__options=BATCHED))
        talk.up.enqueue(answer([events.message_item("msg_3", "welcome")], "resp_3", stream=stream))
        headers = {"authorization": "Bearer sk-one"}
        reply = httpx.post(f"{talk.proxy.base_url}/responses", json=body, headers=headers, timeout=20)
        assert reply.status_code == 200, reply.text
        sent = talk.up.requests[-1].json()
        if sealed:
            assert sent["previous_response_id"] is None
            assert [item.get("call_id") for item in sent["input"]].count("call_exp001") == 2
        else:
            assert sent == {**body, "previous_response_id": "resp_2"}
