import json
from typing import Any

import pytest

from proxy.core.model import Reply, Usage
from proxy.wire.base import ReplyReader
from proxy.wire.responses import ResponsesFormat
from tests.support.feeds import feeds

USAGE = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3, "total_tokens": 13}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "中 🙂", "annotations": []}],
    "phase": "final",
}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a": 1}'}


def event(kind: str, **more: Any) -> bytes:
    data = json.dumps({"type": kind, "sequence_number": 1, **more}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def response(status: str = "in_progress", **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": status, "error": None, "output": [], "usage": None, **more}


OPENING = event("response.created", response=response()) + event("response.in_progress", response=response())
BODY = (
    event("response.output_item.added", output_index=0, item={**MESSAGE, "content": [], "status": "in_progress"})
    + event("response.output_text.delta", output_index=0, content_index=0, delta="中")
    + event("response.output_text.delta", output_index=0, content_index=0, delta=" 🙂")
    + event("response.output_item.done", output_index=0, item=MESSAGE)
    + event("response.output_item.added", output_index=1, item={**CALL, "arguments": ""})
    + event("response.function_call_arguments.delta", output_index=1, delta='{"a": 1}')
    + event("response.output_item.done", output_index=1, item=CALL)
)
END = event("response.completed", response=response("completed", output=[MESSAGE, CALL], usage=USAGE))


def stream() -> ReplyReader:
    return ResponsesFormat().reader(is_stream=True, strip_usage=True)


def run(reader: ReplyReader, chunks: list[bytes]) -> tuple[bytes, Reply]:
    out = b"".join(reader.feed(chunk) for chunk in chunks) + reader.finish()
    return out, reader.reply()


def test_cuts_give_the_same_bytes_and_the_same_reply() -> None:
    data = OPENING + BODY + END
    for chunks in feeds(data, every_cut=False):
        out, reply = run(stream(), chunks)
        assert out == data
        assert (reply.text, reply.finish, reply.response_id) == ("中 🙂", "tool_calls", "resp_1")
        assert (reply.usage, reply.is_complete, reply.error) == (Usage(10, 3, 4), True, b"")
        assert [element.raw for element in reply.elements] == [
            json.dumps(item, ensure_ascii=False).encode() for item in (MESSAGE, CALL)
        ]


def test_items_come_from_their_own_events_when_the_end_lists_none() -> None:
    end = event("response.completed", response=response("completed", usage=USAGE))
    reply = run(stream(), [OPENING + BODY + end])[1]
    assert [element.kind for element in reply.elements] == ["message", "tool_call"]


def test_content_begins_behind_the_opening() -> None:
    reader = stream()
    reader.feed(OPENING + event("response.queued", response=response()) + event("keepalive") + b": ping\n\n")
    reader.feed(event("codex.rate_limits", x=1))
    assert not reader.has_content
    reader.feed(BODY[:300])
    reader.feed(BODY[300:])
    assert reader.has_content
    assert not reader.is_done
    reader.feed(END)
    assert reader.is_done


def test_an_error_in_place_of_content() -> None:
    error = {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "too long"}
    failed = event(
        "response.failed", response=response("failed", error=error, instructions="rate limit? maximum context")
    )
    for body in (
        event("error", error=error) + failed,
        failed,
        event("error", code="c", message="too long", param=None),
    ):
        for chunks in feeds(OPENING + body, every_cut=False):
            reader = stream()
            out, reply = run(reader, chunks)
            assert out == OPENING + body
            assert not reader.has_content
            assert b"too long" in reader.error
            assert b"maximum" not in reader.error
            assert (reply.error, reply.is_complete) == (reader.error, False)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("steered", "steered")],
)
def test_an_incomplete_response_says_why(reason: str, finish: str) -> None:
    end = event(
        "response.incomplete",
        response=response("incomplete", incomplete_details={"reason": reason}, output=[MESSAGE], usage=USAGE),
    )
    reply = run(stream(), [OPENING + end])[1]
    assert (reply.finish, reply.is_complete, reply.usage) == (finish, True, Usage(10, 3, 4))


def test_a_cut_leaves_begun_items() -> None:
    cut = BODY.rindex(b"event: response.output_item.done")
    reply = run(stream(), [OPENING + BODY[:cut]])[1]
    assert not reply.is_complete
    assert [element.kind for element in reply.elements] == ["message", "tool_call"]
    assert reply.elements[1].calls[0].arguments == '{"a": 1}'
    first = BODY.index(b"event: response.output_item.done")
    partial = run(stream(), [OPENING + BODY[:first]])[1]
    assert partial.text == "中 🙂"


def test_big_partial_images_are_relayed_unread() -> None:
    data = event("response.image_generation_call.partial_image", output_index=0, partial_image_b64="A" * 8_000_000)
    reader = stream()
    chunks = [data[i : i + 65536] for i in range(0, len(data), 65536)]
    assert b"".join(reader.feed(chunk) for chunk in chunks) == data
    assert reader.has_content


@pytest.mark.parametrize(
    "data",
    [
        b"data: 5\n\n",
        b"data: {}\n\n",
        b'data: {"type":5}\n\n',
        b'data: {"type":"response.completed"}\n\n',
        b'data: {"type":"response.completed","response":{"output":[5]}}\n\n',
        b'data: {"type":"response.completed","response":[]}\n\n',
        b'data: {"type":"response.output_item.done","output_index":0}\n\n',
        b'data: {"type":"response.output_item.added","output_index":"0","item":4}\n\n',
        b'data: {"type":"response.failed"}\n\n',
        b"data: [DONE]\n\n",
        b"event: \xff\ndata: {}\n\n",
    ],
)
def test_odd_events_never_fail(data: bytes) -> None:
    assert run(stream(), [data])[0] == data


def whole(body: bytes) -> tuple[ReplyReader, Reply]:
    reader = ResponsesFormat().reader(is_stream=False, strip_usage=False)
    out, reply = run(reader, [body[:9], body[9:]])
    assert out == body
    return reader, reply


def test_a_body_is_read_and_its_items_are_exact_slices() -> None:
    document = response("completed", output=[MESSAGE, CALL], usage=USAGE)
    reader, reply = whole(b"\n" + json.dumps(document, indent=2).encode())
    streamed = run(stream(), [OPENING + BODY + END])[1]
    assert reader.has_content
    assert (reply.text, reply.finish, reply.usage, reply.is_complete) == (
        streamed.text,
        streamed.finish,
        streamed.usage,
        True,
    )
    assert [e.hash for e in reply.elements] == [e.hash for e in streamed.elements]
    assert b'\n      "id": "msg_1"' in reply.elements[0].raw


@pytest.mark.parametrize(
    "body", [b'{"error":{"message":"m"}}', json.dumps(response("failed", error={"code": "c", "message": "m"})).encode()]
)
def test_an_error_in_a_success_shows_at_its_end(body: bytes) -> None:
    reader, reply = whole(body)
    assert not reader.has_content
    assert json.loads(reader.error)["error"]["message"] == "m"
    assert not reply.is_complete


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"output":[{', b'{"output":[5],"status":"completed"}', b"[]"])
def test_odd_bodies_are_relayed(body: bytes) -> None:
    assert whole(body)[1].elements == ()


def test_a_queued_response_is_not_complete() -> None:
    reply = whole(json.dumps(response("queued")).encode())[1]
    assert (reply.is_complete, reply.finish) == (False, "queued")
