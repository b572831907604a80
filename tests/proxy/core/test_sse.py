import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.sse import EventParser, is_filler
from tests.support.feeds import feeds


def parse(chunks: list[bytes]) -> list[tuple[bytes, bytes]]:
    parser = EventParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    events += parser.close()
    return [(event.name, event.data) for event in events]


STREAMS = {
    "plain": (b'data: {"a":1}\n\ndata: [DONE]\n\n', [(b"", b'{"a":1}'), (b"", b"[DONE]")]),
    "crlf": (b"event: x\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", [(b"x", b"1"), (b"", b"2")]),
    "cr": (b"data: 1\r\rdata: 2\r\r", [(b"", b"1"), (b"", b"2")]),
    "mixed ends": (b"data: 1\r\n\ndata: 2\n\r\ndata: 3\r\n\r", [(b"", b"1"), (b"", b"2"), (b"", b"3")]),
    "no space": (b"data:1\n\ndata:  2\n\n", [(b"", b"1"), (b"", b" 2")]),
    "many data lines": (b"data: {\ndata: 1\ndata\ndata: }\n\n", [(b"", b"{\n1\n\n}")]),
    "comments": (b": hello\n\n:\n: x\ndata: 1\n: y\n\n: z\n\n", [(b"", b"1")]),
    "other fields": (b"id: 7\nretry: 10\nfoo: x\nevent: a\ndata: 1\n\n", [(b"a", b"1")]),
    "bom": (b"\xef\xbb\xbfdata: 1\n\n", [(b"", b"1")]),
    "name without data": (b"event: a\n\ndata: 1\n\n", [(b"", b"1")]),
    "blank lines": (b"\n\n\ndata: 1\n\n\n\ndata: 2\n\n", [(b"", b"1"), (b"", b"2")]),
    "cut characters": ("data: 中文🙂\n\n".encode(), [(b"", "中文🙂".encode())]),
    "no end": (b"data: 1\n\ndata: 2", [(b"", b"1"), (b"", b"2")]),
    "empty": (b"", []),
}


@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_gives_the_same_events(name: str) -> None:
    data, expected = STREAMS[name]
    for chunks in feeds(data):
        assert parse(chunks) == expected, chunks


def test_offsets_cover_the_event_and_not_the_comments_before_it() -> None:
    data = b": ping\n\ndata: 1\n\n: x\nevent: e\ndata: 2\r\n\r\ndata: 3\n\n"
    for chunks in feeds(data):
        parser = EventParser()
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        first, second, third = (data[event.start : event.end] for event in events)
        assert first == b"data: 1\n\n"
        assert second.rstrip(b"\n") == b"event: e\ndata: 2\r\n\r"  # the last LF may come in the next chunk
        assert third == b"data: 3\n\n"


def test_it_knows_when_it_is_between_events() -> None:
    parser = EventParser()
    states = []
    for byte in b"data: 1\n\n: c\n\ndata: 2\r\n\r\n":
        parser.feed(bytes([byte]))
        states.append(parser.is_between_events)
    text = "".join("." if state else "x" for state in states)
    assert text == "xxxxxxxx.xxx..xxxxxxxxx" + ".."


def test_tail_start_is_where_the_unfinished_event_begins() -> None:
    parser = EventParser()
    parser.feed(b"data: 1\n\ndata: 2\ndat")
    assert parser.tail_start == 9
    parser.feed(b"a: 3\n\n")
    assert parser.tail_start == parser.offset


@pytest.mark.parametrize("size", [2_000_000, 8_000_000])
def test_long_lines_pass_whole_and_in_linear_time(size: int) -> None:
    line = b"x" * size
    data = b"data: " + line + b"\n\n"
    chunks = [data[i : i + 4096] for i in range(0, len(data), 4096)]
    started = time.process_time()
    assert parse(chunks) == [(b"", line)]
    assert time.process_time() - started < 2


def test_byte_by_byte_is_linear() -> None:
    data = b"data: " + b"y" * 300_000 + b"\n\n"
    started = time.process_time()
    assert len(parse([data[i : i + 1] for i in range(len(data))])) == 1
    assert time.process_time() - started < 5


@given(
    st.lists(st.tuples(st.sampled_from([b"", b"a", b"b"]), st.lists(st.binary(max_size=9), min_size=1, max_size=3))),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.data(),
)
def test_what_is_written_is_read(events: list[tuple[bytes, list[bytes]]], end: bytes, data: st.DataObject) -> None:
    clean = [(name, [line.replace(b"\r", b"").replace(b"\n", b"") for line in lines]) for name, lines in events]
    stream = b""
    for name, lines in clean:
        stream += (b"event: " + name + end if name else b"") + b"".join(b"data: " + x + end for x in lines) + end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(chunks) == [(name, b"\n".join(lines)) for name, lines in clean]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b": ping\n\n", True),
        (b":\r\n\r\n", True),
        (b"\n", True),
        (b": one\n: two\n\n", True),
        (b": cut", False),
        (b"data: x\n\n", False),
        (b": ping\n\ndata: x\n\n", False),
        (b"", False),
        (b"{}\n", False),
    ],
)
def test_filler_says_nothing(data: bytes, expected: bool) -> None:
    assert is_filler(data) is expected
