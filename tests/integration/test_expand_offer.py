"""When the tool is in a request, and that it never reaches a client: not in a list, not in a call, not in an echo."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.store.base import Store
from tests.support import builders, replies
from tests.support.expanding import BATCHED, NAME, SIZE, THEIRS, Talk, assembled, expand, reply, talking
from tests.support.serve import served
from tests.support.session import EAGER, OMITTED, conversation, from_store, ok, strict
from tests.support.upstream import Request, ScriptedUpstream


def tools_of(request: Request) -> list[str]:
    return [tool["function"]["name"] for tool in request.json().get("tools", ())]


def test_mask_01_it_comes_with_the_first_window_that_leaves_something_out_and_stays() -> None:
    """MASK-01: no stub names a tool; the tool is there from the first stub on, the same bytes at the same place."""
    with talking() as talk:
        talk.say("more")
        first, second, third = talk.up.requests[0], *talk.up.requests[1:3]
        assert tools_of(first) == ["look"] and OMITTED not in first.body
        assert tools_of(second) == tools_of(third) == ["look", NAME] and OMITTED in second.body
        raws = [request.body.partition(b'"tools":')[2] for request in (second, third)]
        assert (
            raws[0] == raws[1]
            and first.body.partition(b'"tools":')[2][:-2]
            == raws[0].partition(b',{"type":"function","function":{"name":"ctx_')[0]
        )
        for message in talk.window():
            assert NAME not in str(message)


def test_mask_01_a_request_without_tools_gets_a_plain_placeholder() -> None:
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__options=EAGER) as proxy:
        messages = [builders.system(), builders.user("read"), *builders.steps(3, SIZE)]
        for text in ("a", "b"):
            messages.append(builders.user(text))
            ok(proxy, messages, tools=False)
            messages.append(builders.assistant("noted"))
        assert OMITTED in up.requests[-1].body and NAME.encode() not in up.requests[-1].body


@pytest.mark.parametrize(
    ("extra", "wanted"),
    [
        ({"tool_choice": "none"}, True),
        ({"tool_choice": {"type": "function", "function": {"name": "look"}}}, True),
        ({"parallel_tool_calls": False}, True),
        ({"tool_choice": "required"}, True),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}}, False),
        ({"n": 2}, False),
    ],
)
def test_once_offered_it_stays_unless_the_answer_would_come_out_wrong(extra: dict[str, Any], wanted: bool) -> None:
    with talking() as talk:
        ok(talk.proxy, [*talk.messages, builders.user("x")], **extra)
        assert (NAME in tools_of(talk.up.requests[-1])) is wanted
        assert talk.up.requests[-1].json().get("tool_choice") == extra.get("tool_choice")


@pytest.mark.parametrize("choice", ["none", {"type": "function", "function": {"name": "look"}}])
def test_a_request_that_cannot_call_it_is_not_the_first_to_get_it(choice: Any) -> None:
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__options=BATCHED) as proxy:
        Talk(proxy, up, tool_choice=choice)
        assert OMITTED in up.requests[-1].body and tools_of(up.requests[-1]) == ["look"]


def test_a_client_with_a_tool_of_that_name_keeps_it_to_itself() -> None:
    tools = [builders.tool(NAME), builders.tool()]
    with ScriptedUpstream(strict) as up, served(up.base_url, policy__options=BATCHED) as proxy:
        talk = Talk(proxy, up, own_tools=tools)
        assert tools_of(up.requests[-1]) == [NAME, "look"]
        up.enqueue(reply(None, [expand(id="mine")], stream=False))
        assert talk.say("x")["tool_calls"] == [expand(id="mine")]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"expand__enabled": False}, []),
        ({"expand__off_models": ["scripted-*"]}, []),
        ({"expand__name": "fetch_original"}, ["fetch_original"]),
        ({"expand__offer": "always"}, [NAME]),
    ],
)
def test_settings(settings: dict[str, Any], wanted: list[str]) -> None:
    with talking(**settings) as talk:
        assert tools_of(talk.up.requests[-1]) == ["look", *wanted]
        assert (NAME in tools_of(talk.up.requests[0])) is (settings.get("expand__offer") == "always")


def test_the_one_break_that_it_costs_is_in_the_record() -> None:
    with talking() as talk:
        name = conversation(ok(talk.proxy, talk.messages))

        async def rows(store: Store) -> list[tuple[int, str]]:
            found = [await store.window(window) for window in await store.windows(name)]
            return [(manifest.window.first_change, manifest.window.reason) for manifest in found if manifest]

        changes = from_store(talk.proxy.db, rows)
        assert [change for change, _ in changes] == [-1, 0, -1] and changes[1][1]


def test_row_52_the_client_never_hears_of_it() -> None:
    """Row 52: whatever the provider does with the tool, no byte that reaches the client names it."""
    seen: list[bytes] = []
    for stream in (False, True):
        with talking(stream=stream) as talk:
            for calls in (
                [expand(id=talk.ids[0])],
                [THEIRS, expand(id="x")],
                [expand(id="y"), expand("c2", id="z"), THEIRS],
            ):
                talk.up.enqueue(reply("a", calls, stream=stream))
                response = ok(talk.proxy, [*talk.messages, builders.user("look")], stream=stream)
                seen.append(response.content + json.dumps(dict(response.headers)).encode())
            talk.up.enqueue(
                reply("a", [expand(id=talk.ids[0])], stream=stream, finish="length")
                if not stream
                else replies.cut_stream(replies.chat_events("a", calls=[expand(id="q")])[:-3], reset=False)
            )
            response = ok(talk.proxy, [*talk.messages, builders.user("look")], stream=stream)
            seen.append(response.content)
    assert len(seen) == 8 and not any(b"ctx_" in body or b"call_exp" in body for body in seen)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_row_52_a_call_of_a_name_that_was_never_offered_passes_as_it_came(stream: bool) -> None:
    """The model made the name up: an ordinary provider would have sent the very same."""
    call = expand(id="aaaaaaaaaaaa")
    with ScriptedUpstream() as up, served(up.base_url) as proxy:
        up.enqueue(reply(None, [call], stream=stream))
        response = ok(proxy, [builders.user("hello")], stream=stream)
        said = assembled(response.text) if stream else response.json()["choices"][0]["message"]
        assert said["tool_calls"] == [call] and len(up.requests) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_row_52_a_call_where_this_request_leaves_the_tool_out_is_answered_unseen(stream: bool) -> None:
    """It was offered before: the model goes on with it though this request asks for a form of answer instead."""
    with talking(stream=stream) as talk:
        talk.extra["response_format"] = {"type": "json_object"}
        talk.up.enqueue(reply(None, [expand(id=talk.ids[0])], stream=stream), reply("{}", stream=stream))
        said = talk.say("as JSON")
        assert said["content"] == "{}" and "tool_calls" not in said and NAME not in tools_of(talk.up.requests[-1])
