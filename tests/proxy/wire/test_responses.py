import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.model import Conversation
from proxy.errors import NotUnderstoodError
from proxy.wire.base import FrameEdits, Piece
from proxy.wire.responses import ResponsesFormat
from tests.support.messy_json import json_values, messy

NO_EDITS = FrameEdits()


def own(conversation: Conversation) -> list[Piece]:
    return [Piece(element.raw, index) for index, element in enumerate(conversation.elements)]


def decode(**body: Any) -> Conversation:
    return ResponsesFormat().decode(json.dumps({"model": "m", "input": [], **body}).encode(), {})


ITEMS = st.sampled_from(
    [
        {"role": "user", "content": "hi"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "é\ud800"}], "phase": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Q=="},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "text \\ /"},
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a", "stderr": "b"}]},
        {"type": "unheard_of", "x": [1.50, None]},
    ]
)


@settings(max_examples=100)
@given(st.lists(ITEMS, max_size=6), st.text(max_size=8), json_values(), st.randoms(use_true_random=False))
def test_what_came_goes_out_byte_for_byte(items: list[Any], text: str, value: Any, random: Any) -> None:
    responses = ResponsesFormat()
    for content in (items, text):
        body = messy({"model": "m", "x": value, "input": content, "store": False}, random).strip()
        data = body.encode("utf-8", "surrogatepass")
        try:
            conversation = responses.decode(data, {})
        except NotUnderstoodError:
            assert any("\ud800" <= char <= "\udfff" for char in body)
            continue
        pieces = own(conversation)
        assert responses.encode(conversation, pieces, NO_EDITS) == data
        lowered = responses.encode(conversation, pieces, FrameEdits(max_output=1))
        assert lowered == data
        for element in conversation.elements:
            assert responses.render(element, [None] * len(element.texts)) == element.raw


def test_a_string_input_is_one_user_element() -> None:
    responses = ResponsesFormat()
    body = b'{"model":"m", "input" : "say \\u00e9" ,"max_output_tokens":900}'
    conversation = responses.decode(body, {})
    (element,) = conversation.elements
    assert (element.role, element.text, conversation.head) == ("user", "say é", 0)
    assert responses.encode(conversation, own(conversation), NO_EDITS) == body
    assert responses.encode(conversation, own(conversation), FrameEdits(max_output=5)) == body.replace(b"900", b"5")
    note = responses.note("n")
    out = responses.encode(conversation, [Piece(note, None), *own(conversation)], FrameEdits(max_output=5))
    assert out == (
        b'{"model":"m", "input" : [' + note + b',{"role":"user","content":"say \\u00e9"}] ,"max_output_tokens":5}'
    )
    frame = responses.frame(conversation, own(conversation), NO_EDITS)
    assert frame.prefix + element.raw + frame.suffix == body


def test_the_request_is_read() -> None:
    conversation = decode(
        input=[{"role": "developer", "content": "d"}, {"role": "user", "content": "u"}],
        instructions="be good",
        stream=True,
        tools=[{"type": "function"}],
        max_output_tokens=7,
        prompt_cache_key="k",
    )
    assert (conversation.wire, conversation.model, conversation.is_stream) == ("responses", "m", True)
    assert (conversation.instructions, conversation.head, conversation.has_tools) == ("be good", 1, True)
    assert (conversation.max_output, conversation.wants_usage, conversation.hints.cache_key) == (7, True, "k")
    assert not conversation.is_opaque


@pytest.mark.parametrize(
    "body",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"context_management": [{"type": "compaction", "compact_threshold": 1000}]},
        {"background": True},
        {"input": [{"role": "user", "content": "x"}, {"type": "compaction_trigger"}]},
        {"input": [{"type": "compaction", "encrypted_content": "x"}]},
        {"input": [{"type": "item_reference", "id": "x"}]},
        {"input": [{"id": "x"}]},
    ],
)
def test_state_at_the_provider_is_never_touched(body: dict[str, Any]) -> None:
    conversation = decode(**body)
    assert conversation.is_opaque
    assert conversation.hints.is_opaque == ("input" not in body)
    assert conversation.is_partial == bool(body.keys() & {"previous_response_id", "conversation"})
    assert conversation.is_kept == conversation.is_partial
    assert conversation.hints.previous_response == body.get("previous_response_id", "")


@pytest.mark.parametrize(
    "body",
    [
        {"previous_response_id": None, "conversation": None, "context_management": [], "background": False},
        {"store": True, "prompt": {"id": "p"}, "include": ["reasoning.encrypted_content"]},
        {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]},
    ],
)
def test_other_requests_are_ours(body: dict[str, Any]) -> None:
    assert not decode(**body).is_opaque


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"input":5}',
        b'{"input":{}}',
        b'{"input":"x"',
        b'{"input":"x","input":"y"}',
        b'{"input":[5]}',
        b'{"input":"x"} y',
    ],
)
def test_what_is_not_understood_says_so(body: bytes) -> None:
    with pytest.raises(NotUnderstoodError):
        ResponsesFormat().decode(body, {})


def test_errors_of_our_own_have_the_shape_that_clients_raise_on() -> None:
    responses = ResponsesFormat()
    assert json.loads(responses.error_body("m", code="c"))["error"]["code"] == "c"
    events = responses.error_event("m", code="c")
    names = [line for line in events.split(b"\n") if line.startswith(b"event:")]
    assert names == [b"event: error", b"event: response.failed"]
    reader = responses.reader(is_stream=True, strip_usage=False)
    reader.feed(events)
    assert json.loads(reader.error)["error"]["message"] == "m"
    assert not reader.has_content
