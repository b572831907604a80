"""HTTP itself in front of and behind a conversation: codings, framing, hop-by-hop headers, hostile requests, sizes."""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import brotli
import httpx
import pytest
import zstandard

from tests.support import builders, replies
from tests.support.raw import Reply, exchange, talk
from tests.support.serve import Served, served, served_process
from tests.support.upstream import Action, Request, ScriptedUpstream, Send

NUMBERS = count(1)
CODINGS = ("gzip", "deflate", "br", "zstd")


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url, server__max_body_mb=80) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh_script(up: ScriptedUpstream) -> Iterator[None]:
    """No test gets an answer that another one left."""
    yield
    up.forget_script()


def port_of(proxy: Any) -> int:
    return int(proxy.url.rsplit(":", 1)[1])


def chat(*, stream: bool = False, **extra: Any) -> bytes:
    """A request of a conversation of its own."""
    return builders.body_bytes(builders.request([builders.user(f"talk {next(NUMBERS)}")], stream=stream, **extra))


def post(proxy: Served, body: bytes, headers: Any = None, path: str = "/chat/completions") -> httpx.Response:
    return httpx.post(proxy.base_url + path, content=body, headers=headers, timeout=30)


def raw(proxy: Served, body: bytes, *lines: str, path: str = "/v1/chat/completions", **options: Any) -> Reply:
    framing = [] if any("transfer-encoding" in line.lower() for line in lines) else [f"content-length: {len(body)}"]
    head = "\r\n".join([f"POST {path} HTTP/1.1", "host: x", *framing, *lines, "", ""])
    return exchange(port_of(proxy), head.encode() + body, **options)


# -- codings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", [None, "gzip, deflate, br, zstd"])
@pytest.mark.parametrize("kind", ["json", "stream", "error"])
@pytest.mark.parametrize("coding", CODINGS)
def test_http_01_body_and_headers_of_a_reply_agree(
    up: ScriptedUpstream, proxy: Served, coding: str, kind: str, accept: str | None
) -> None:
    """An upstream that compresses although it was asked not to; the same on a path that is passed through."""
    events = b"".join(replies.chat_events("the tide turns"))
    error = builders.body_bytes({"error": {"message": "no such model", "code": "model_not_found"}})
    plain, status, content_type = {
        "json": (builders.body_bytes(replies.completion("the tide turns")), 200, "application/json"),
        "stream": (events, 200, "text/event-stream"),
        "error": (error, 404, "application/json"),
    }[kind]
    headers = [("accept-encoding", accept)] if accept else []
    asks_usage = {"stream_options": {"include_usage": True}}
    chat_body = chat(stream=True, **asks_usage) if kind == "stream" else chat()
    for path, body in (("/chat/completions", chat_body), ("/other", b"x")):
        up.enqueue(replies.compressed_reply(plain, coding, status, content_type=content_type, framing="chunked"))
        reply = raw(proxy, body, *(f"{n}: {v}" for n, v in headers), path=f"/v1{path}")
        got = reply.body
        if said := reply.header("content-encoding"):
            got = httpx.Response(200, headers={"content-encoding": said}, content=got).content
        assert (reply.status, got, reply.header("content-type")) == (status, plain, content_type)
        assert reply.header("content-length") in (None, str(len(reply.body)))


@pytest.mark.parametrize("coding", [*CODINGS, "zstd, gzip"])
def test_http_03_upstream_gets_plain_json_of_a_coded_request(up: ScriptedUpstream, coding: str) -> None:
    """Also when the window is smaller than the list that came."""
    with served(up.base_url, policy__name="last_n", policy__options={"messages": 3}) as proxy:
        messages = [builders.system(), builders.user("begin"), *builders.steps(3), builders.user("go on")]
        for end in (4, 6, len(messages)):
            up.enqueue(replies.json_reply(replies.completion("fine")))
            plain = builders.body_bytes(builders.request(messages[:end], tools=[builders.tool()]))
            data = plain
            for each in coding.split(", "):
                data = replies.encode_body(data, each)
            assert post(proxy, data, {"content-encoding": coding}).status_code == 200
            sent = up.requests[-1]
            assert sent.header("content-encoding") is None
            assert sent.header("content-length") == str(len(sent.body))
            assert sent.header("accept-encoding") == "identity"
        assert len(sent.body) < len(plain) and sent.json()["messages"][0] == messages[0]


@pytest.mark.parametrize("said", ["gzip", "compress"])
def test_a_coding_that_cannot_be_undone_is_upstreams_to_judge(up: ScriptedUpstream, proxy: Served, said: str) -> None:
    up.enqueue(replies.error_reply(400, "could not decode"))
    reply = post(proxy, b"\x1f\x8bnot really", {"content-encoding": said})
    sent = up.requests[-1]
    assert (sent.body, sent.header("content-encoding")) == (b"\x1f\x8bnot really", said)
    assert reply.status_code == 400 and "could not decode" in reply.text


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    """A quarter of a gigabyte of zeros in each coding: 250 KB down to a few hundred bytes."""
    block, out = bytes(1 << 20), {}
    gz, br, zs = zlib.compressobj(6, wbits=31), brotli.Compressor(quality=1), zstandard.ZstdCompressor().compressobj()
    parts: dict[str, list[bytes]] = {"gzip": [], "br": [], "zstd": []}
    for _ in range(256):
        parts["gzip"].append(gz.compress(block))
        parts["br"].append(br.process(block))
        parts["zstd"].append(zs.compress(block))
    for name, end in (("gzip", gz.flush()), ("br", br.finish()), ("zstd", zs.flush())):
        out[name] = b"".join(parts[name]) + end
    return out


def peak_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10


def test_bombs_are_refused_within_bounded_memory(up: ScriptedUpstream, bombs: dict[str, bytes]) -> None:
    before = len(up.requests)
    with served_process(up.base_url, server__max_body_mb=16) as process:
        assert process.process is not None
        start = peak_mb(process.process.pid)
        for coding, bomb in bombs.items():
            assert len(bomb) < 2 << 20
            url = f"{process.base_url}/chat/completions"
            reply = httpx.post(url, content=bomb, headers={"content-encoding": coding}, timeout=30)
            assert reply.status_code == 413 and reply.json()["error"]["code"] == "body_too_large"
        assert peak_mb(process.process.pid) - start < 80
    assert len(up.requests) == before


@pytest.mark.parametrize("stream", [True, False])
def test_http_01_a_coding_that_nobody_knows_stays_with_its_body(
    up: ScriptedUpstream, proxy: Served, stream: bool
) -> None:
    """Servers name charsets there, and gateways codings of their own; the answer matters more than either."""
    said = [("content-encoding", "utf-8")]
    if stream:
        up.enqueue(replies.stream_reply(replies.chat_events("fine"), headers=said))
    else:
        up.enqueue(replies.json_reply(replies.completion("fine"), headers=said))
    reply = raw(proxy, chat(stream=stream))
    assert reply.status == 200 and b"fine" in reply.body and reply.header("content-encoding") == "utf-8"


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("kind", ["json", "stream"])
def test_http_01_a_coded_reply_that_breaks_off_is_no_success(
    up: ScriptedUpstream, proxy: Served, coding: str, kind: str
) -> None:
    """Whole by its framing, cut inside its coding: the client of a decoded body could not see it."""
    events = b"".join(replies.chat_events("the tide turns " * 400, done=False))
    plain = events if kind == "stream" else builders.body_bytes(replies.completion("the tide turns " * 400))
    content_type = "text/event-stream" if kind == "stream" else "application/json"
    cut = replies.encode_body(plain, coding)[:-9]
    up.enqueue(replies.raw_reply(200, cut, [("content-type", content_type), ("content-encoding", coding)]))
    with talk(port_of(proxy)) as link:
        body = chat(stream=kind == "stream")
        link.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        try:
            reply = link.reply()
        except EOFError:
            return  # broken off, as it came
    assert reply.status == 502 or b'"error"' in reply.body


# -- framing -----------------------------------------------------------------------------------------

HIDDEN = b"POST /v1/hidden HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
BODY = b'{"model":"m","messages":[{"role":"user","content":"a"}]}'
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
SMUGGLING = {
    "both, length first": (["content-length: 4", "transfer-encoding: chunked"], CHUNKED + HIDDEN),
    "both, chunked first": (["transfer-encoding: chunked", f"content-length: {len(BODY)}"], BODY + HIDDEN),
    "two lengths": ([f"content-length: {len(BODY)}", "content-length: 0"], BODY + HIDDEN),
    "a list of lengths": ([f"content-length: {len(BODY)}, 0"], BODY + HIDDEN),
    "a signed length": ([f"content-length: +{len(BODY)}"], BODY + HIDDEN),
    "a hex length": ([f"content-length: 0x{len(BODY):x}"], BODY + HIDDEN),
    "a huge length": (["content-length: 99999999999999999999999"], BODY + HIDDEN),
    "chunked twice": (["transfer-encoding: chunked", "transfer-encoding: chunked"], CHUNKED + HIDDEN),
    "chunked is not last": (["transfer-encoding: chunked, identity"], CHUNKED + HIDDEN),
    "chunked misspelt": (["transfer-encoding: xchunked"], CHUNKED + HIDDEN),
    "chunked behind a tab": (["transfer-encoding:\x0bchunked", "content-length: 3"], CHUNKED + HIDDEN),
    "space before the colon": (["transfer-encoding : chunked", "content-length: 3"], CHUNKED + HIDDEN),
    "a folded line": (["x-a: b", " transfer-encoding: chunked", "content-length: 3"], CHUNKED + HIDDEN),
    "a bare line feed": (["x-a: b\ntransfer-encoding: chunked", "content-length: 3"], CHUNKED + HIDDEN),
    "a bad chunk size": (["transfer-encoding: chunked"], b"-1\r\n\r\n" + HIDDEN),
    "a huge chunk size": (["transfer-encoding: chunked"], b"fffffffffffffffffff\r\n" + HIDDEN),
    "a chunk that lies": (["transfer-encoding: chunked"], b"2\r\nabcdef\r\n0\r\n\r\n" + HIDDEN),
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
@pytest.mark.parametrize("shape", SMUGGLING)
def test_http_06_conflicting_framing_never_becomes_two_requests(
    up: ScriptedUpstream, proxy: Served, shape: str, path: str
) -> None:
    """Refused with 400 and closed, or one request with one framing; what hides in a body is never one of its own."""
    lines, body = SMUGGLING[shape]
    before = len(up.requests)
    up.handler = lambda _: replies.json_reply(replies.completion())
    head = "\r\n".join([f"POST {path} HTTP/1.1", "host: x", *lines, "", ""]).encode("latin-1")
    with talk(port_of(proxy)) as link:
        link.send(head + body)
        reply = link.reply()
        if reply.status == 400:
            assert link.read_all() == b""
    up.handler = None
    sent = up.requests[before:]
    assert len(sent) <= (reply.status == 200)
    for request in sent:
        assert request.target == path
        assert len(request.header_list("content-length")) + len(request.header_list("transfer-encoding")) == 1
    if reply.status != 200:
        assert reply.status == 400


def test_http_06_a_pipelined_request_is_answered_in_its_turn(up: ScriptedUpstream, proxy: Served) -> None:
    up.enqueue(replies.raw_reply(200, b"one"), replies.raw_reply(200, b"two"))
    with talk(port_of(proxy)) as link:
        link.send(b"POST /v1/a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhiGET /v1/b HTTP/1.1\r\nhost: x\r\n\r\n")
        assert [link.reply().body, link.reply().body] == [b"one", b"two"]
    assert [request.target for request in up.requests[-2:]] == ["/v1/a", "/v1/b"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
def test_a_body_that_is_shorter_than_announced_is_no_request(up: ScriptedUpstream, proxy: Served, path: str) -> None:
    before = up.bodies_read
    up.handler = lambda _: replies.json_reply(replies.completion())
    with talk(port_of(proxy)) as link:
        link.send(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n".encode() + BODY)
        link.sock.shutdown(socket.SHUT_WR)
        link.read_all()
    post(proxy, chat())
    up.handler = None
    assert up.bodies_read == before + 1  # the whole one alone


def test_a_body_that_is_longer_than_announced_is_no_request_of_another_length(
    up: ScriptedUpstream, proxy: Served
) -> None:
    before = len(up.requests)
    up.enqueue(replies.raw_reply(200))
    head = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n"
    reply = exchange(port_of(proxy), head + b"abc{garbage\r\n\r\n")
    assert reply.status in (200, 400)
    assert [request.body for request in up.requests[before:]] == [b"abc"] * (reply.status == 200)


def test_expect_100_continue(up: ScriptedUpstream, proxy: Served) -> None:
    up.enqueue(replies.json_reply(replies.completion()))
    body = chat()
    with talk(port_of(proxy)) as link:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len(body)}"
        link.send(head.encode() + b"\r\n\r\n")
        assert link.read_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        link.send(body)
        assert link.reply().status == 200
    assert up.requests[-1].header("expect") is None


# -- headers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
def test_http_05_one_server_one_date_and_all_that_may_repeat(up: ScriptedUpstream, proxy: Served, path: str) -> None:
    headers = [
        ("Server", "provider"),
        ("Date", "Tue, 01 Dec 2026 00:00:00 GMT"),
        ("date", "Tue, 01 Dec 2026 00:00:01 GMT"),
        ("x-request-id", "req_1"),
        ("set-cookie", "a=1; path=/"),
        ("set-cookie", "b=2; path=/"),
        ("warning", "1"),
        ("warning", "2"),
        ("x-bad", "a\x01b"),
    ]
    up.enqueue(replies.json_reply(replies.completion(), headers=headers))
    reply = raw(proxy, chat(), path=path)
    assert (reply.all("server"), reply.all("date")) == (["provider"], ["Tue, 01 Dec 2026 00:00:00 GMT"])
    assert (reply.all("set-cookie"), reply.all("warning")) == (["a=1; path=/", "b=2; path=/"], ["1", "2"])
    assert reply.header("x-request-id") == "req_1" and reply.header("x-bad") is None


HOPS = ["connection: keep-alive, X-Mine", "x-mine: 1", "keep-alive: timeout=5", "te: trailers", "trailer: x-late"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
def test_http_07_nothing_of_one_link_crosses(up: ScriptedUpstream, proxy: Served, path: str, stream: bool) -> None:
    """Neither way; a chunked reply of upstream is framed anew, once."""
    names = ("x-mine", "x-yours", "keep-alive", "te", "trailer", "upgrade", "proxy-authorization", "x-late")
    back = [
        ("connection", "X-Yours"),
        ("x-yours", "1"),
        ("keep-alive", "timeout=1"),
        ("trailer", "x-late"),
        ("upgrade", "h2c"),
    ]
    if stream:
        up.enqueue(replies.stream_reply(replies.chat_events(), headers=back))
    else:
        up.enqueue(replies.json_reply(replies.completion(), headers=back, framing="chunked"))
    reply = raw(proxy, chat(stream=stream), *HOPS, "proxy-authorization: Basic x", "x-kept: 1", path=path)
    sent: Request = up.requests[-1]
    assert not [name for name in names if sent.header(name) is not None]
    assert sent.header("x-kept") == "1" and (sent.header("connection") or "keep-alive").lower() == "keep-alive"
    assert not [name for name in names if reply.header(name) is not None]
    assert len(reply.all("content-length")) + len(reply.all("transfer-encoding")) == 1


def test_http_07_trailers_do_not_cross(up: ScriptedUpstream, proxy: Served) -> None:
    chunked = b"2\r\nok\r\n0\r\nx-late: 1\r\n\r\n"
    up.enqueue(Action((Send(replies.head(200, [("x-a", "1")], framing="chunked") + chunked),)))
    data = b"2\r\nhi\r\n0\r\nauthorization: Bearer late\r\n\r\n"
    reply = raw(proxy, data, "transfer-encoding: chunked", path="/v1/files")
    assert reply.body == b"ok" and reply.header("x-late") is None
    assert up.requests[-1].body == b"hi" and up.requests[-1].header("authorization") is None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
def test_client_headers_reach_upstream_byte_for_byte(up: ScriptedUpstream, proxy: Served, path: str) -> None:
    up.enqueue(replies.json_reply(replies.completion()))
    lines = [
        "authorization: Bearer sk-own",
        "openai-organization: org-1",
        "user-agent: OpenAI/Python 1.99",
        "x-stainless-retry-count: 0",
        "x-title: Möwe",
        "cookie: a=1; b=2",
        "x-many: 1",
        "x-many: 2",
        "x-empty:",
    ]
    head = "\r\n".join([f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(BODY)}", *lines, "", ""])
    assert exchange(port_of(proxy), head.encode() + BODY).status == 200
    sent = up.requests[-1].raw_head.split(b"\r\n")
    for line in lines:
        name, _, value = line.partition(":")
        assert f"{name}: {value.strip()}".encode() in sent, line
    ours = {b"host", b"content-length", b"accept-encoding"}
    assert {line.split(b":")[0].lower() for line in sent[1:-2]} - {
        line.split(":")[0].encode() for line in lines
    } <= ours


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n", b"NOPE\r\n\r\n", b"HTTP/1.1 200\r\ncontent-length: x\r\n\r\n"],
)
def test_a_reply_that_is_no_http_is_a_bad_gateway(up: ScriptedUpstream, proxy: Served, head: bytes, path: str) -> None:
    up.enqueue(Action((Send(head),), is_last=True))
    reply = post(proxy, chat(), path=path.removeprefix("/v1"))
    assert reply.status_code == 502 and reply.json()["error"]["code"] == "upstream_protocol"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"error":' * 900 + b'"x"' + b"}" * 900], ids=["open", "closed"])
def test_an_error_nested_too_deeply_to_be_read_is_relayed(
    up: ScriptedUpstream, proxy: Served, body: bytes, stream: bool
) -> None:
    """RETR-09 at its worst: what we cannot read is still upstream's answer, and nothing is sent for it twice."""
    before = len(up.requests)
    up.handler = lambda _: replies.raw_reply(400, body, [("content-type", "application/json")])
    reply = post(proxy, chat(stream=stream))
    up.handler = None
    assert (reply.status_code, reply.content, len(up.requests) - before) == (400, body, 1)


# -- sizes -------------------------------------------------------------------------------------------


def test_a_body_of_64_mb_passes_whole(up: ScriptedUpstream, proxy: Served) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 6_200_000}}
    body = builders.body_bytes(builders.request([{"role": "user", "content": [image]}]))
    assert len(body) > 64 << 20
    up.enqueue(replies.json_reply(replies.completion("seen")))
    assert post(proxy, body).json()["choices"][0]["message"]["content"] == "seen"
    assert up.requests[-1].body == body


@pytest.mark.parametrize("lines", [["content-length: 999999999"], ["transfer-encoding: chunked"]])
def test_over_the_limit_is_413_and_upstream_hears_nothing(up: ScriptedUpstream, lines: list[str]) -> None:
    before = len(up.requests)
    data = b"200000\r\n%s\r\n" % bytes(0x200000) if "chunked" in lines[0] else b""
    with served(up.base_url, server__max_body_mb=1) as proxy:
        head = "\r\n".join(["POST /v1/chat/completions HTTP/1.1", "host: x", *lines, "", ""]).encode()
        reply = exchange(port_of(proxy), head + data)
        assert reply.status == 413 and "server.max_body_mb" in reply.json()["error"]["message"]
    assert len(up.requests) == before


def test_a_flood_of_headers_is_refused_and_the_next_client_served(up: ScriptedUpstream, proxy: Served) -> None:
    flood = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n" + b"".join(b"x-%d: 1\r\n" % n for n in range(100_000))
    assert exchange(port_of(proxy), flood, until_closed=True).status == 431
    up.enqueue(replies.raw_reply(200, b"[]"))
    assert httpx.get(f"{proxy.base_url}/models").content == b"[]"


def test_json_of_a_refusal_is_read_by_every_client(proxy: Served) -> None:
    reply = exchange(port_of(proxy), b"GET / HTTP/9.9\r\n\r\n")
    assert json.loads(reply.body)["error"].keys() == {"message", "type", "param", "code"}
