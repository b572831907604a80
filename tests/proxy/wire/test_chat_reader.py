import json
import time
from typing import Any

import pytest

from proxy.core.model import Reply, Usage
from proxy.wire.base import ReplyReader
from proxy.wire.chat import ChatFormat
from tests.support.feeds import feeds

USAGE = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}


def chunk(delta: dict[str, Any] | None = None, *, end: str = "\n\n", **more: Any) -> bytes:
    document: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m"}
    if delta is not None:
        document["choices"] = [{"index": 0, "delta": delta, "finish_reason": more.pop("finish", None)}]
    return b"data: " + json.dumps(document | more, ensure_ascii=False).encode() + end.encode()


ROLE = chunk({"role": "assistant", "content": ""})
USAGE_ONLY = chunk(choices=[], usage=USAGE)
DONE = b"data: [DONE]\n\n"
TALK = ROLE + chunk({"content": "中文"}) + chunk({"content": " 🙂"}, usage=None) + chunk({}, finish="stop")


def stream(*, strip: bool = False) -> ReplyReader:
    return ChatFormat().reader(is_stream=True, strip_usage=strip)


def run(reader: ReplyReader, chunks: list[bytes]) -> tuple[bytes, Reply]:
    out = b"".join(reader.feed(part) for part in chunks) + reader.finish()
    return out, reader.reply()


def read(data: bytes, *, strip: bool = False) -> Reply:
    return run(stream(strip=strip), [data])[1]


def test_every_cut_gives_the_same_bytes_and_the_same_reply() -> None:
    data = TALK + USAGE_ONLY + DONE
    for chunks in feeds(data):
        out, reply = run(stream(), chunks)
        assert out == data
        assert reply.text == "中文 🙂"
        assert reply.usage == Usage(10, 3)
        assert (reply.finish, reply.is_complete, reply.response_id, reply.error) == ("stop", True, "chatcmpl-1", b"")
        (element,) = reply.elements
        assert json.loads(element.raw) == {"role": "assistant", "content": "中文 🙂"}


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_any_line_end_is_relayed_and_read(end: str) -> None:
    data = chunk({"content": "a"}, end=end) + b": c" + end.encode() + chunk({"content": "b"}, finish="stop", end=end)
    for chunks in feeds(data):
        out, reply = run(stream(), chunks)
        assert (out, reply.text, reply.finish) == (data, "ab", "stop")


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_the_usage_chunk_that_nobody_asked_for_is_taken_out(end: str) -> None:
    before = b": hi\n\n" + chunk({"content": "a"}, end=end)
    after = (b"data: [DONE]" + end.encode()) if end != "\r\r" else b"data: [DONE]\r\r"
    data = before + chunk(choices=[], usage=USAGE, end=end) + after
    for chunks in feeds(data):
        out, reply = run(stream(strip=True), chunks)
        assert out == before + after, chunks
        assert reply.usage == Usage(10, 3)


@pytest.mark.parametrize(
    "event",
    [
        chunk(choices=[], usage=None),
        chunk(choices=[], prompt_filter_results=[{"prompt_index": 0}]),
        chunk(choices=[], usage=USAGE, moderation={"flagged": False}),
        chunk({"content": "x"}, usage=USAGE),
        chunk({}, finish="stop", usage=USAGE),
        chunk(usage=USAGE),
        chunk(choices=[], usage=USAGE, error={"message": "m"}),
        b'data: {"usage": "text"}\n\n',
        b": comment\n\n",
        DONE,
    ],
)
def test_any_other_event_stays(event: bytes) -> None:
    data = ROLE + event + DONE
    for chunks in feeds(data, every_cut=False):
        assert run(stream(strip=True), chunks)[0] == data


def test_usage_chunks_first_and_in_the_middle_go_too() -> None:
    data = USAGE_ONLY + ROLE + USAGE_ONLY + USAGE_ONLY + chunk({"content": "x"}) + USAGE_ONLY
    for chunks in feeds(data):
        assert run(stream(strip=True), chunks)[0] == ROLE + chunk({"content": "x"})


def test_content_is_not_held_back_while_its_event_is_unfinished() -> None:
    reader = stream(strip=True)
    event = chunk({"content": "x" * 30})
    assert reader.feed(event[:90]) == b""  # it may still be the usage chunk
    assert not reader.error
    out = reader.feed(event[90:-1])
    assert out == event[:-1]  # a delta: it passes before its end
    assert not reader.at_event_boundary
    assert reader.feed(b"\n") == b"\n"
    assert reader.at_event_boundary


def test_long_unfinished_events_pass_whatever_they_are() -> None:
    reader = stream(strip=True)
    reader.feed(b'data: {"x":"')
    assert len(reader.feed(b"y" * 20_000)) > 20_000
    assert reader.feed(b'y"}\n\n') == b'y"}\n\n'


def test_a_held_fragment_belongs_to_the_client_at_the_end() -> None:
    reader = stream(strip=True)
    assert reader.feed(b'data: {"choices":[') == b""
    assert reader.at_event_boundary
    assert reader.finish() == b'data: {"choices":['
    assert not reader.at_event_boundary


def test_has_content_waits_for_content() -> None:
    reader = stream()
    for quiet in (b": OPENROUTER PROCESSING\n\n", ROLE, chunk(choices=[], prompt_filter_results=[]), USAGE_ONLY):
        reader.feed(quiet)
        assert not reader.has_content
    reader.feed(b'data: {"choices":[{"content_filter_results":{}}]}\n\n')
    assert not reader.has_content
    reader.feed(chunk({"content": "a"}))
    assert reader.has_content


@pytest.mark.parametrize(
    "event",
    [
        chunk({}, finish="stop"),
        chunk({"reasoning_content": "x"}),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]}),
    ],
)
def test_finish_reasoning_and_calls_are_content(event: bytes) -> None:
    reader = stream()
    reader.feed(event)
    assert reader.has_content


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error":{"message":"too long","code":"context_length_exceeded"}}\n\n',
        b'data: {"error":{"object":"error","message":"too long","code":400}}\n\n',
        b'event: error\ndata: {"error":"too long"}\n\n',
        b"event: error\ndata: too long\n\n",
        b'data: {"error":{"message":"too long"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}\n\n',
        b'data: {"object":"error","message":"too long","code":400}\n\n',
        b'data: {"message":"too long"}\n\n',
    ],
)
def test_errors_in_the_middle_are_read_and_relayed(event: bytes) -> None:
    for chunks in feeds(ROLE + event + DONE):
        reader = stream()
        out, reply = run(reader, chunks)
        assert out == ROLE + event + DONE
        assert b"too long" in reader.error
        json.loads(reader.error)
        assert not reader.has_content
        assert (reply.error, reply.is_complete) == (reader.error, False)


def test_a_clean_close_without_an_end_is_incomplete() -> None:
    reply = read(ROLE + chunk({"content": "a"}) + chunk({"content": "b"}))
    assert (reply.text, reply.is_complete, reply.finish, reply.usage) == ("ab", False, "", None)
    assert reply.elements[0].text == "ab"


def test_an_event_cut_in_the_middle_leaves_what_came_before() -> None:
    reply = read(chunk({"content": "a"}) + chunk({"content": "lost"})[:40])
    assert (reply.text, reply.is_complete) == ("a", False)


def test_is_done_turns_with_the_terminal_marker() -> None:
    reader = stream()
    reader.feed(TALK)
    assert not reader.is_done
    reader.feed(DONE)
    assert reader.is_done


def test_running_totals_and_late_usage() -> None:
    totals = b"".join(
        chunk({"content": "x"}, usage={"prompt_tokens": 5, "completion_tokens": n, "total_tokens": 5 + n})
        for n in (12, 40, 90)
    )
    assert read(totals).usage == Usage(5, 90)
    moonshot = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":4}}]}\n\n'
    assert read(moonshot).usage == Usage(4, 0)
    assert read(chunk({}, x_groq={"usage": {"prompt_tokens": 4, "completion_tokens": 1}})).usage == Usage(4, 1)
    assert read(chunk({}, timings={"prompt_n": 4, "cache_n": 6, "predicted_n": 2})).usage == Usage(10, 2, 6)


def test_calls_are_assembled_with_unknown_keys_and_can_be_sent_back() -> None:
    reply = read(
        chunk({"role": "assistant", "content": None, "reasoning_details": [{"type": "t", "index": 0, "text": "r"}]})
        + chunk(
            {"tool_calls": [{"index": 0, "id": "A", "type": "function", "function": {"name": "f", "arguments": ""}}]}
        )
        + chunk(
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}, "extra_content": {"g": {"s": "x"}}}]}
        )
        + chunk({}, finish="tool_calls")
    )
    (element,) = reply.elements
    assert json.loads(element.raw) == {
        "role": "assistant",
        "content": None,
        "reasoning_details": [{"type": "t", "index": 0, "text": "r"}],
        "tool_calls": [
            {
                "id": "A",
                "type": "function",
                "function": {"name": "f", "arguments": '{"a": 1}'},
                "extra_content": {"g": {"s": "x"}},
            }
        ],
    }
    assert [(call.id, call.name, call.arguments) for call in element.calls] == [("A", "f", '{"a": 1}')]
    assert [atom.kind for atom in element.atoms] == ["reasoning", "call"]


def test_several_choices() -> None:
    data = b"".join(
        b'data: {"choices":[{"index":%d,"delta":{"content":"%d"},"finish_reason":"stop"}]}\n\n' % (i, i) for i in (1, 0)
    )
    reply = read(data)
    assert [element.text for element in reply.elements] == ["0", "1"]
    assert reply.text == "0"


def test_odd_json_in_a_stream_is_relayed_and_read() -> None:
    data = (
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"},"logprobs":{"x":NaN}}]}\n\n'
        b"data: {broken\n\ndata: 5\n\ndata:\n\n" + chunk({"content": "z"}, finish="stop")
    )
    out, reply = run(stream(strip=True), [data])
    assert out == data
    assert reply.text == "�z"
    assert b"\\ud83d" in reply.elements[0].raw


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"choices": None},
        {"choices": {}},
        {"choices": [None, 5]},
        {"choices": [{"delta": None}]},
        {"choices": [{"index": "0", "delta": {"tool_calls": [None], "content": 5}}]},
        {"choices": [{"delta": {"tool_calls": {"a": 1}}}], "id": 5, "usage": []},
        {"choices": [{"delta": {"tool_calls": [{"function": None, "index": None, "id": 7}]}, "finish_reason": 3}]},
    ],
)
def test_odd_shapes_never_fail(document: Any) -> None:
    data = b"data: " + json.dumps(document).encode() + b"\n\n" + chunk({"content": "z"})
    out, reply = run(stream(strip=True), [data])
    assert out == data
    assert reply.text.endswith("z") or reply.elements


def test_two_megabytes_of_arguments_in_one_line() -> None:
    arguments = json.dumps({"text": "x" * 2_000_000})
    data = chunk({"tool_calls": [{"index": 0, "id": "A", "function": {"name": "f", "arguments": arguments}}]})
    started = time.process_time()
    out, reply = run(stream(strip=True), [data[i : i + 8192] for i in range(0, len(data), 8192)])
    assert out == data
    assert reply.elements[0].calls[0].arguments == arguments
    assert time.process_time() - started < 2


BODY = (
    b'\n\n {"id":"chatcmpl-2","choices":[{"index":0,"message": {"role":"assistant", "content":"hi\\u00e9","n":1.50},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}} \n'
)


def body_reader() -> ReplyReader:
    return ChatFormat().reader(is_stream=False, strip_usage=True)


def test_a_body_is_read_whole_and_its_message_is_an_exact_slice() -> None:
    for chunks in feeds(BODY):
        reader = body_reader()
        out, reply = run(reader, chunks)
        assert out == BODY
        assert reader.has_content
        assert reader.is_done
        assert reply.elements[0].raw == b'{"role":"assistant", "content":"hi\\u00e9","n":1.50}'
        assert (reply.text, reply.finish, reply.usage, reply.is_complete) == ("hié", "stop", Usage(7, 2), True)
        assert reply.response_id == "chatcmpl-2"


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"m"}}',
        b'{"object":"error","message":"m"}',
        b'[{"error":{"message":"m"}}]',
        b'{"choices":null,"base_resp":{"status_code":1039,"status_msg":"token limit"}}',
    ],
)
def test_an_error_in_a_success_shows_at_its_end(body: bytes) -> None:
    reader = body_reader()
    out, reply = run(reader, [body])
    assert out == body
    assert not reader.has_content
    assert reader.error
    assert (reply.error, reply.is_complete) == (reader.error, False)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"choices":[{"mess', b"[]", b'{"choices":[{"message":5}]}', b'{"a":NaN}']
)
def test_odd_bodies_are_relayed(body: bytes) -> None:
    reader = body_reader()
    out, reply = run(reader, [body])
    assert out == body
    assert reply.elements == ()


def test_blank_lines_are_not_content_and_a_big_body_is() -> None:
    reader = body_reader()
    reader.feed(b"\n\n\n")
    assert not reader.has_content
    reader.feed(b" " * 70_000)
    assert reader.has_content


def test_streamed_and_whole_replies_are_equal() -> None:
    whole = run(
        body_reader(),
        [
            json.dumps(
                {"choices": [{"message": {"role": "assistant", "content": "中文 🙂"}, "finish_reason": "stop"}]}
            ).encode()
        ],
    )[1]
    streamed = read(TALK)
    assert streamed.elements[0].hash == whole.elements[0].hash
    assert (streamed.text, streamed.finish) == (whole.text, whole.finish)
