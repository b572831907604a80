"""One message of the client out of several of the provider."""

from __future__ import annotations

from proxy.core.model import Reply, Usage
from proxy.wire.chat import read_message
from proxy.wire.expand_rounds import ChatRounds, without


def test_names_and_output_of_later_rounds_are_those_of_the_whole() -> None:
    rounds = ChatRounds("ctx_expand", read_message)
    rounds.envelope = {"id": "first", "created": 1}
    assert rounds.as_first({"id": "x"}) == {"id": "x"}
    rounds.end({"role": "assistant", "content": "a"}, Reply(usage=Usage(5, 2), response_id="first"))
    later = {"id": "x", "created": 9, "model": "m", "usage": {"completion_tokens": 1}}
    assert rounds.as_first(later) == {"id": "first", "created": 1, "model": "m", "usage": {"completion_tokens": 3}}
    reply = rounds.reply(
        {"role": "assistant", "content": "b"}, Reply(finish="stop", usage=Usage(6, 1), response_id="x")
    )
    assert (reply.text, reply.response_id, reply.finish, reply.usage) == ("ab", "first", "stop", Usage(6, 1))


def test_a_call_without_an_id_gets_one_that_can_be_answered() -> None:
    rounds = ChatRounds("ctx_expand", read_message)
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "ctx_expand", "arguments": {"id": "a"}}}],
    }
    made = rounds.round(message, [True])
    assert made.calls[0].id == made.elements[0].calls[0].id == "call_1_0" and made.calls[0].arguments == '{"id":"a"}'


def test_taking_out_the_last_call_takes_out_the_key() -> None:
    message = {"content": "x", "tool_calls": [1]}
    assert without(message, [True]) == {"content": "x"} and without(message, [False]) == message
