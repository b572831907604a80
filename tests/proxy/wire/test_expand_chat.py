"""Chat streams of several rounds as one: cut at every byte, in every order of calls, and nothing of ours ever shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.wire.chat import ChatFormat
from proxy.wire.expand_chat import ChatExpandStream
from tests.support.feeds import feeds
from tests.support.replies import DONE, chat_events, chunk, event, tool_call

CUTS = pytest.mark.parametrize("every_cut", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"])
"""Every cut into two chunks takes long; single bytes and a few cuts are in each run."""
NAME = "ctx_expand"
OURS = tool_call("call_ours", NAME, {"id": "abc", "lines": "1-9"})
THEIRS = tool_call("call_theirs", "read_file", {"path": "a.py"})
OTHER = tool_call("call_other", "search", {"q": "x"})


def reader(*, strip_usage: bool = False) -> ChatExpandStream:
    return ChatExpandStream(NAME, ChatFormat().read_element, strip_usage=strip_usage)


def play(made: ChatExpandStream, *rounds: Sequence[bytes]) -> bytes:
    """All that the client gets of these rounds, each given as its chunks."""
    out: list[bytes] = []
    for number, chunks in enumerate(rounds):
        if number:
            assert made.wants_more
            made.next_round()
        out += [made.feed(data) for data in chunks]
        out.append(made.finish())
    return b"".join(out)


def documents(stream: bytes) -> list[Any]:
    events = [part.removeprefix(b"data: ") for part in stream.split(b"\n\n") if part]
    return [json.loads(data) if data != b"[DONE]" else "[DONE]" for data in events]


def whole(*parts: Any, **options: Any) -> bytes:
    return b"".join(chat_events(*parts, **options))


def test_what_is_not_ours_passes_byte_for_byte() -> None:
    data = b": hello\n\n" + whole("some words", calls=[THEIRS, OTHER])
    assert play(reader(), [data]) == data
    odd = b"".join([event(chunk({"tool_calls": [{"id": i, "index": 0, "function": {"name": "f"}}]})) for i in "AB"])
    assert play(reader(), [odd]) == odd


def test_a_round_of_ours_alone_continues_as_one_reply_wherever_it_is_cut() -> None:
    first = whole("Let me look. ", calls=[OURS], prompt=100, output=7)
    second = whole("It says 42.", prompt=150, output=5).replace(b"chatcmpl-scripted", b"chatcmpl-second")
    wanted = play(reader(), [first], [second])
    seen = documents(wanted)
    assert NAME.encode() not in wanted and b"call_ours" not in wanted
    assert {part["id"] for part in seen[:-1]} == {"chatcmpl-scripted"} and seen[-1] == "[DONE]"
    choices = [part["choices"][0] for part in seen[:-1] if part["choices"]]
    assert sum("role" in choice["delta"] for choice in choices) == 1
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "Let me look. It says 42."
    (usage,) = [part["usage"] for part in seen[:-1] if part.get("usage")]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (150, 12, 162)
    for chunks in feeds(first):
        assert play(reader(), chunks, [second]) == wanted
    for chunks in feeds(second):
        assert play(reader(), [first], chunks) == wanted


@CUTS
@pytest.mark.parametrize(
    "calls", [[OURS, THEIRS], [THEIRS, OURS], [THEIRS, OURS, OTHER], [OURS, OURS | {"id": "call_2"}, THEIRS]]
)
def test_mixed_calls_reach_the_client_with_clean_indexes(calls: list[Any], every_cut: bool) -> None:
    visible = [call for call in calls if call["function"]["name"] != NAME]
    data = whole("I look. ", calls=calls)
    wanted = whole("I look. ", calls=visible)
    for chunks in feeds(data, every_cut=every_cut):
        made = reader()
        assert documents(play(made, chunks)) == documents(wanted)
        assert not made.wants_more
        (element,) = made.reply().elements
        assert [call.id for call in element.calls] == [call["id"] for call in visible]
        ended = made.round()
        assert [call.id for call in ended.elements[0].calls] == [call["id"] for call in calls]
        assert [call.arguments for call in ended.calls] == [
            c["function"]["arguments"] for c in calls if c not in visible
        ]


def test_a_hidden_call_knows_which_calls_stood_before_it() -> None:
    made = reader()
    play(made, [whole("", calls=[THEIRS, OURS, OTHER])])
    assert made.round().calls[0].before == ("call_theirs",)


def interleaved() -> list[bytes]:
    """Both calls' pieces in turn, the name of ours in two pieces, the client's arguments before its name."""

    def piece(index: int, **fields: Any) -> bytes:
        return event(chunk({"tool_calls": [{"index": index, **fields}]}))

    return [
        event(chunk({"role": "assistant", "content": None})),
        piece(0, id="A", type="function", function={"name": "ctx_", "arguments": ""}),
        piece(1, id="B", type="function", function={"arguments": '{"p"'}),
        piece(0, function={"name": "expand"}),
        piece(0, function={"arguments": '{"id":'}),
        piece(1, function={"name": "read", "arguments": ":1"}),
        piece(0, function={"arguments": '"x"}'}),
        piece(1, function={"arguments": "}"}),
        event(chunk({}, finish="tool_calls")),
        DONE,
    ]


@CUTS
def test_interleaved_pieces_and_a_name_in_pieces(every_cut: bool) -> None:
    data = b"".join(interleaved())
    wanted: bytes | None = None
    for chunks in feeds(data, every_cut=every_cut):
        made = reader()
        out = play(made, chunks)
        wanted = wanted or out
        assert out == wanted and b"expand" not in out and b"ctx_" not in out
        (element,) = made.reply().elements
        assert [(call.id, call.name, call.arguments) for call in element.calls] == [("B", "read", '{"p":1}')]
        assert [(call.id, call.arguments) for call in made.round().calls] == [("A", '{"id":"x"}')]
    entries = [d["choices"][0]["delta"].get("tool_calls", []) for d in documents(wanted or b"")[:-1]]
    assert all(entry["index"] == 0 for found in entries for entry in found)


def test_a_longer_name_that_begins_like_ours_is_the_clients() -> None:
    call = tool_call("c", "ctx_expand_all", {"a": 1})
    assert documents(play(reader(), [whole("", calls=[call])])) == documents(whole("", calls=[call]))
    pieces = [
        event(chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": NAME, "arguments": ""}}]})),
        event(chunk({"tool_calls": [{"index": 0, "function": {"name": "_all"}}]})),
        event(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})),
        event(chunk({}, finish="tool_calls")),
    ]
    made = reader()
    out = documents(play(made, pieces))
    assert out[0]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "ctx_expand_all"
    assert not made.wants_more and not made.round().calls


def test_a_call_without_arguments_is_known_at_the_end() -> None:
    made = reader()
    call = {"index": 0, "id": "A", "type": "function", "function": {"name": NAME, "arguments": ""}}
    out = play(made, [event(chunk({"tool_calls": [call]})), event(chunk({}, finish="tool_calls")), DONE])
    assert made.wants_more and NAME.encode() not in out
    (element,) = made.round().elements
    assert element.calls[0].arguments == "{}"


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_reply_that_was_cut_ends_there_without_the_call(finish: str) -> None:
    made = reader()
    data = whole("Half a ", calls=[OURS]).replace(
        b'"finish_reason":"tool_calls"', b'"finish_reason":"%s"' % finish.encode()
    )
    out = documents(play(made, [data]))
    assert not made.wants_more and made.round().calls == ()
    assert out[-3]["choices"][0]["finish_reason"] == finish
    assert made.reply().elements[0].calls == ()


def test_an_error_in_a_later_round_reaches_the_client() -> None:
    made = reader()
    error = event({"error": {"message": "boom", "code": "server_error"}})
    out = play(made, [whole("a", calls=[OURS])], [error])
    assert documents(out)[-1] == {"error": {"message": "boom", "code": "server_error"}}
    assert b"boom" in made.error


def test_a_reply_in_one_chunk_keeps_its_words_and_loses_its_call() -> None:
    call = {**OURS, "index": 0}
    data = event(
        chunk({"role": "assistant", "content": "words", "tool_calls": [call]}, finish="tool_calls", usage={"x": 1})
    )
    made = reader()
    (first, *_) = documents(play(made, [data, DONE]))
    assert made.wants_more
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "words"}
    assert first["choices"][0]["finish_reason"] is None and "usage" not in first


def test_the_usage_chunk_that_only_the_proxy_asked_for_stays_out() -> None:
    made = reader(strip_usage=True)
    out = play(made, [whole("a", calls=[OURS])], [whole("b", output=3)])
    assert b'"usage"' not in out
    assert (made.reply().usage or 0) and made.reply().text == "ab"


def test_content_counts_only_when_the_client_gets_some() -> None:
    made = reader()
    made.feed(whole("", calls=[OURS]))
    assert not made.has_content
    made.next_round()
    made.feed(event(chunk({"role": "assistant", "content": ""})))
    assert not made.has_content
    made.feed(event(chunk({"content": "x"})))
    assert made.has_content


def test_the_clients_one_message_joins_what_was_said_and_thought() -> None:
    first = [
        event(chunk({"role": "assistant", "reasoning_content": "hm "})),
        event(chunk({"tool_calls": [{**OURS, "index": 0, "extra_content": {"google": {"thought_signature": "s"}}}]})),
        event(chunk({}, finish="tool_calls")),
    ]
    second = [event(chunk({"role": "assistant", "reasoning_content": "so"})), *chat_events("Done", calls=[THEIRS])[1:]]
    made = reader()
    play(made, first)
    (kept,) = made.round().elements
    assert json.loads(kept.raw)["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    made.next_round()
    made.feed(b"".join(second))
    message = json.loads(made.reply().elements[0].raw)
    assert (message["reasoning_content"], message["content"]) == ("hm so", "Done")
    assert [call["id"] for call in message["tool_calls"]] == ["call_theirs"]
