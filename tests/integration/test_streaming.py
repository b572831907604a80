"""Event streams over real sockets: every grammar, every cut, every silence, and what is on disk when a byte is seen."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import builders, replies
from tests.support.records import Records
from tests.support.replies import DONE, chat_events, chunk, event, stream_reply
from tests.support.serve import Served, served, served_process
from tests.support.signals import Gate
from tests.support.upstream import Action, ScriptedUpstream, Send

NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Desk:
    """A running proxy with its scripted upstream and its database."""

    up: ScriptedUpstream
    proxy: Served
    records: Records

    def body(self, *, ask: bool = True, stream: bool = True, **extra: Any) -> dict[str, Any]:
        """A request of a conversation of its own."""
        if ask and stream:
            extra["stream_options"] = {"include_usage": True}
        return builders.request([builders.user(f"talk {next(NUMBERS)}")], stream=stream, **extra)

    def open(self, body: dict[str, Any], **headers: str) -> Any:
        url = f"{self.proxy.base_url}/chat/completions"
        return httpx.stream("POST", url, json=body, headers=headers, timeout=20)

    def relay(self, action: Action, **options: Any) -> tuple[bytes, str]:
        """All bytes that the client gets of this answer, and the conversation."""
        self.up.enqueue(action)
        with self.open(self.body(**options)) as response:
            assert response.status_code == 200
            return b"".join(response.iter_raw()), response.headers["x-undercliff-conversation"]


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with (
        ScriptedUpstream() as up,
        served(up.base_url, server__hold_head_s=0.05, server__heartbeat_s=0.05) as proxy,
    ):
        yield Desk(up, proxy, Records(proxy.db))


def content(text: str) -> bytes:
    return event(chunk({"content": text}))


# -- grammar ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [True, False])
@pytest.mark.parametrize("is_bytewise", [True, False])
def test_strm_01_characters_cut_between_writes(desk: Desk, is_bytewise: bool, ask: bool) -> None:
    text = "海岸線の潮 🌊 grüße"
    events = chat_events(text, size=100, with_usage=ask)
    data = b"".join(events)
    wave = data.index("🌊".encode())
    kanji = data.index("潮".encode())
    parts = replies.bytewise(data) if is_bytewise else replies.cut_at(data, kanji + 1, kanji + 2, wave + 1, wave + 3)
    got, conversation = desk.relay(stream_reply(parts), ask=ask)
    assert got == data
    assert desk.records.texts(conversation)[-1] == text


@pytest.mark.parametrize("cut", ["whole", "between CR and LF", "bytewise"])
def test_strm_02_crlf(desk: Desk, cut: str) -> None:
    call = replies.tool_call("call_crlf000001", "look", {"what": "tide"})
    data = b"".join(chat_events("so", calls=[call], prompt=77)).replace(b"\n", b"\r\n")
    places = [i for i in range(1, len(data)) if data[i - 1 : i + 1] == b"\r\n"]
    parts = {"whole": [data], "between CR and LF": replies.cut_at(data, *places), "bytewise": replies.bytewise(data)}
    got, conversation = desk.relay(stream_reply(parts[cut]))
    assert got == data
    outcome = desk.records.outcome(conversation)
    assert (outcome.input, outcome.finish, outcome.outcome) == (77, "tool_calls", "ok")
    stored = json.loads(desk.records.raws(conversation)[-1])
    assert stored["content"] == "so" and stored["tool_calls"] == [call]


def test_strm_03_the_whole_grammar(desk: Desk) -> None:
    piece = json.dumps(chunk({"content": "spread"}), indent=1)
    data = b"".join(
        [
            b"retry: 3000\nid: 1\nevent: chunk\n",
            b"data:" + json.dumps(chunk({"role": "assistant", "content": "no space, "})).encode() + b"\n\n",
            b"".join(b"data: " + line.encode() + b"\n" for line in piece.splitlines()) + b"\n",
            content(", CR").replace(b"\n", b"\r"),
            event(chunk({}, finish="stop")),
            event(chunk(None, usage=replies.usage(31))),
            b"data:[DONE]\n\n",
        ]
    )
    for parts in ([data], replies.bytewise(data)):
        got, conversation = desk.relay(stream_reply(parts))
        assert got == data
        assert desk.records.texts(conversation)[-1] == "no space, spread, CR"
        assert desk.records.outcome(conversation).input == 31


def test_strm_04_comments_stay_comments(desk: Desk) -> None:
    first, *rest = chat_events("calm")
    data = b": OPENROUTER PROCESSING\n\n" + first + b": keep-alive\n\n:\n\n" + b"".join(rest)
    got, conversation = desk.relay(stream_reply([data]))
    assert got == data
    assert desk.records.texts(conversation)[-1] == "calm"


@pytest.mark.parametrize("megabytes", [2, 8])
def test_strm_09_no_cap_on_a_line(desk: Desk, megabytes: int) -> None:
    arguments = json.dumps({"text": "x" * (megabytes << 20)})
    call = replies.tool_call("call_large00001", "write", arguments)
    events = chat_events("", calls=[call], size=len(arguments))
    got, conversation = desk.relay(stream_reply(events))
    assert got == b"".join(events)
    stored = json.loads(desk.records.raws(conversation)[-1])
    assert stored["tool_calls"][0]["function"]["arguments"] == arguments


def test_strm_10_an_id_says_more_than_an_index(desk: Desk) -> None:
    def piece(**call: Any) -> bytes:
        return event(chunk({"tool_calls": [{"index": 0, **call}]}))

    events = [
        piece(id="call_a00000001", type="function", function={"name": "look", "arguments": '{"what":'}),
        piece(function={"arguments": '"A"}'}),
        piece(id="call_b00000001", type="function", function={"name": "look", "arguments": '{"what":'}),
        piece(function={"arguments": '"B"}'}),
        event(chunk({}, finish="tool_calls")),
        DONE,
    ]
    got, conversation = desk.relay(stream_reply(events))
    assert got == b"".join(events)
    calls = json.loads(desk.records.raws(conversation)[-1])["tool_calls"]
    assert [(call["id"], json.loads(call["function"]["arguments"])["what"]) for call in calls] == [
        ("call_a00000001", "A"),
        ("call_b00000001", "B"),
    ]


def test_strm_11_calls_without_an_index(desk: Desk) -> None:
    def piece(**call: Any) -> bytes:
        return event(chunk({"tool_calls": [call]}))

    events = [
        piece(id="call_a00000002", function={"arguments": '{"what":'}),
        piece(id="call_a00000002", function={"name": "look", "arguments": '"A"}'}),
        piece(id="call_b00000002", function={"arguments": '{"what":'}),
        piece(id="call_b00000002", function={"name": "find", "arguments": '"B"}'}),
        event(chunk({}, finish="tool_calls")),
        DONE,
    ]
    got, conversation = desk.relay(stream_reply(events))
    assert got == b"".join(events)
    calls = json.loads(desk.records.raws(conversation)[-1])["tool_calls"]
    assert [(c["function"]["name"], json.loads(c["function"]["arguments"])["what"]) for c in calls] == [
        ("look", "A"),
        ("find", "B"),
    ]


@pytest.mark.parametrize("ask", [True, False])
def test_strm_13_chunks_without_choices(desk: Desk, ask: bool) -> None:
    filtered = event(chunk(None, prompt_filter_results=[{"prompt_index": 0}]))
    bare = event({"id": "chatcmpl-scripted", "object": "chat.completion.chunk"})
    first, second, *rest = chat_events("ebb and flow", with_usage=False, done=False)
    final = event(chunk(None, usage=replies.usage(64)))
    events = [filtered, first, bare, second, event(chunk(None)), *rest]
    got, conversation = desk.relay(stream_reply([*events, final, DONE]), ask=ask)
    assert got == b"".join([*events, *([final] if ask else []), DONE])
    assert desk.records.texts(conversation)[-1] == "ebb and flow"
    assert desk.records.outcome(conversation).input == 64


# -- ends and cuts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_strm_06_a_clean_close_without_a_marker(desk: Desk, framing: replies.Framing) -> None:
    events = [content("one "), content("two "), content("three")]
    got, conversation = desk.relay(stream_reply(events, framing=framing))
    assert got == b"".join(events)
    outcome = desk.records.outcome(conversation)
    assert (outcome.outcome, outcome.finish, outcome.is_estimated) == ("incomplete", "", True)
    assert desk.records.texts(conversation)[-1] == "one two three"


def read_all(desk: Desk, body: dict[str, Any]) -> tuple[bytes, bool]:
    """The response's bytes as they are on the wire, and whether it ended as promised."""
    got = b""
    with desk.open(body) as response:
        try:
            for data in response.iter_raw():
                got += data
        except httpx.RemoteProtocolError:
            return got, False
    return got, True


@pytest.mark.parametrize("reset", [True, False])
def test_strm_07_a_cut_between_events(desk: Desk, reset: bool) -> None:
    events = [content(f"{n} ") for n in range(5)]
    gate = Gate()
    desk.up.enqueue(replies.cut_stream([*events, gate], reset=reset))
    got = b""
    with desk.open(desk.body()) as response:
        for data in response.iter_raw():
            got += data
            gate.open()
        conversation = response.headers["x-undercliff-conversation"]
    assert got.startswith(b"".join(events))
    (last,) = got[len(b"".join(events)) :].split(b"\n\n")[:-1]
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert error["code"] == "upstream_closed" and error["message"] and "type" in error
    assert DONE not in got
    outcome = desk.records.outcome(conversation)
    assert outcome.outcome == "interrupted" and outcome.error
    assert outcome.is_estimated and outcome.output > 0 and outcome.input > 0
    assert desk.records.texts(conversation)[-1] == "0 1 2 3 4 "


def test_strm_07_a_cut_inside_a_line(desk: Desk) -> None:
    events = [content(f"{n} ") for n in range(5)]
    fragment = content("never whole")[:40]
    gate = Gate()
    desk.up.enqueue(replies.cut_stream([*events, fragment, gate]))
    got, is_whole = b"", True
    with desk.open(desk.body()) as response:
        try:
            for data in response.iter_raw():
                got += data
                if fragment in got:
                    gate.open()
        except httpx.RemoteProtocolError:
            is_whole = False
        conversation = response.headers["x-undercliff-conversation"]
    assert got == b"".join(events) + fragment
    assert not is_whole  # the client learns of the cut from the framing
    assert desk.records.outcome(conversation).outcome == "interrupted"
    assert desk.records.texts(conversation)[-1] == "0 1 2 3 4 "


def test_a_cut_behind_the_marker_is_no_cut(desk: Desk) -> None:
    events = chat_events("all said")
    got, conversation = desk.relay(replies.cut_stream([*events, 0.1]))  # a reset takes away what was not read yet
    assert got == b"".join(events)
    assert desk.records.outcome(conversation).outcome == "ok"


def test_the_marker_is_not_kept_waiting_for_the_close(desk: Desk) -> None:
    events, gate = chat_events("soon"), Gate()
    desk.up.enqueue(stream_reply([*events, gate]))
    got = b""
    with desk.open(desk.body()) as response:
        for data in response.iter_raw():
            got += data
            if got.endswith(DONE):
                assert not gate.is_open  # seen while upstream's connection is still open
                # The reply is on disk by now, though the stream has not been closed.
                conversation = response.headers["x-undercliff-conversation"]
                assert desk.records.outcome(conversation).outcome == "ok"
                gate.open()
    assert gate.is_open


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_before_any_content_is_a_plain_error(desk: Desk, stream: bool) -> None:
    """Nothing has reached the client: it gets a status that its library retries on."""
    if stream:
        action = replies.cut_stream(chat_events("x")[:1])
    else:
        whole = json.dumps(replies.completion("never whole")).encode()
        start = replies.head(200, [("content-type", "application/json")], length=len(whole))
        action = Action((Send(start + whole[:60]),), is_last=True)
    desk.up.enqueue(action)
    with desk.open(desk.body(stream=stream)) as response:
        assert response.status_code == 502
        assert json.loads(response.read())["error"]["code"] == "upstream_closed"


# -- silence ---------------------------------------------------------------------------------------


def test_strm_15_head_at_once_then_silence(desk: Desk) -> None:
    gate = Gate()
    role, *rest = chat_events("late")
    desk.up.enqueue(stream_reply([role, gate, *rest]))
    with desk.open(desk.body()) as response:
        assert response.status_code == 200 and not gate.is_open
        chunks = response.iter_raw()
        beats = [next(chunks), next(chunks)]
        assert all(beat.startswith(b":") and beat.endswith(b"\n\n") for beat in beats)
        gate.open()
        got = b"".join(chunks)
    assert without_heartbeats(got) == role + b"".join(rest)


def test_heartbeats_stand_between_events_only(desk: Desk) -> None:
    gates = [Gate(), Gate()]
    first, second, third = content("one"), content("two"), content("three")
    desk.up.enqueue(stream_reply([first, gates[0], second[:20], gates[1], second[20:], third, DONE]))
    with desk.open(desk.body()) as response:
        chunks = response.iter_raw()
        got = next(chunks)
        assert got == first
        beat = next(chunks)
        assert beat.startswith(b":")
        gates[0].open()
        while not got.endswith(second[:20]):
            got += next(chunks)
        gates[1].open()  # the fragment stood alone for a while, and nothing was put into it
        got += b"".join(chunks)
    assert without_heartbeats(got) == first + second + third + DONE


def without_heartbeats(data: bytes) -> bytes:
    return b"".join(part + b"\n\n" for part in data.split(b"\n\n")[:-1] if not part.startswith(b":"))


def test_a_providers_comments_pass_while_the_first_event_is_awaited(desk: Desk) -> None:
    gate = Gate()
    comment = b": OPENROUTER PROCESSING\n\n"
    desk.up.enqueue(stream_reply([comment, gate, *chat_events("slow")]))
    with desk.open(desk.body()) as response:
        chunks = response.iter_raw()
        while next(chunks) != comment:
            pass
        assert not gate.is_open
        gate.open()
        assert b"".join(chunks).endswith(b"".join(chat_events("slow")))


def test_strm_17_each_token_as_it_comes(desk: Desk) -> None:
    tokens = [content(f"t{n} ") for n in range(5)]
    gates = [Gate() for _ in tokens]
    parts = [part for pair in zip(tokens, gates, strict=True) for part in pair]
    desk.up.enqueue(stream_reply([*parts, DONE]))
    with desk.open(desk.body(), **{"accept-encoding": "gzip"}) as response:
        assert "content-encoding" not in response.headers and "content-length" not in response.headers
        chunks = response.iter_raw()
        for token, gate in zip(tokens, gates, strict=True):
            got = next(chunks)
            while got.startswith(b":"):
                got = next(chunks)
            assert got == token and not gate.is_open
            gate.open()
        assert b"".join(chunks).endswith(DONE)


# -- what is on disk when a byte is seen -------------------------------------------------------------


def test_request_rows_are_committed_before_the_first_byte(desk: Desk) -> None:
    body, gate = desk.body(), Gate()
    desk.up.enqueue(stream_reply([content("first "), gate, content("last"), DONE]))
    with desk.open(body) as response:
        conversation = response.headers["x-undercliff-conversation"]
        chunks = response.iter_raw()
        next(chunks)
        ((exchange, outcome),) = desk.records.exchanges(conversation)
        assert outcome is None and exchange.conversation == conversation
        assert desk.records.texts(conversation) == [body["messages"][0]["content"]]
        gate.open()


@pytest.mark.parametrize("stream", [True, False])
def test_reply_rows_are_committed_before_the_end_is_visible(desk: Desk, stream: bool) -> None:
    action = replies.chat_stream("the end") if stream else replies.json_reply(replies.completion("the end"))
    got, conversation = desk.relay(action, stream=stream)
    assert got
    assert desk.records.outcome(conversation).outcome == "ok"
    assert desk.records.texts(conversation)[-1] == "the end"


def test_kill_9_right_after_a_byte_was_seen(tmp_path: Path) -> None:
    """What a client was told is on disk: the request with the first byte, the reply with the marker."""
    gate = Gate()
    with ScriptedUpstream() as up, served_process(up.base_url, tmp_path) as proxy:
        records = Records(proxy.db)
        up.enqueue(stream_reply([content("one"), gate, DONE]), replies.chat_stream("two", with_usage=False))
        for text, stop_at in (("first question", content("one")), ("second question", DONE)):
            body = builders.request([builders.user(text)], stream=True)
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(json.dumps(body))}\r\n\r\n"
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as sock:
                sock.sendall(head.encode() + json.dumps(body).encode())
                got = b""
                while stop_at not in got:
                    got += sock.recv(65536)
                proxy.kill()
            stored = {text for c in records.conversations() for text in records.texts(c)}
            assert text in stored
            assert ("two" in stored) == (stop_at == DONE)
            if stop_at != DONE:
                proxy.start()
        gate.open()
