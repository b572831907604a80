"""Every other path and method, over real sockets: what a client sends and gets is what went over the other wire."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import builders, replies
from tests.support.raw import exchange, talk
from tests.support.records import Records
from tests.support.serve import Served, served, served_process
from tests.support.signals import Gate
from tests.support.upstream import Action, Request, ScriptedUpstream

NOT_UTF8 = bytes(range(256)) * 40
KEY = {"authorization": "Bearer sk-own-key"}


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url) as running:
        yield running


def port_of(proxy: Any) -> int:
    return int(proxy.url.rsplit(":", 1)[1])


def call(proxy: Served, method: str, path: str, **options: Any) -> httpx.Response:
    return httpx.request(method, proxy.url + path, timeout=20, **options)


# -- bodies ------------------------------------------------------------------------------------------


def multipart(boundary: str, *, is_whole: bool = True) -> bytes:
    part = b'--%s\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' % boundary.encode()
    return part + NOT_UTF8 + (b"\r\n--%s--\r\n" % boundary.encode() if is_whole else b"\r\n--oth")


@pytest.mark.parametrize("is_whole", [True, False])
def test_http_10_uploads_and_binary_replies_are_byte_exact(up: ScriptedUpstream, proxy: Served, is_whole: bool) -> None:
    body = multipart("xyz", is_whole=is_whole)
    answer = replies.raw_reply(200 if is_whole else 400, NOT_UTF8, [("content-type", "audio/wav")])
    up.enqueue(answer)
    headers = {"content-type": "multipart/form-data; boundary=xyz", **KEY}
    reply = call(proxy, "POST", "/v1/audio/transcriptions", content=body, headers=headers)
    sent = up.requests[-1]
    assert (sent.body, sent.header("content-type")) == (body, headers["content-type"])
    assert sent.header("content-length") == str(len(body)) and not sent.is_chunked
    assert (reply.status_code, reply.content) == (200 if is_whole else 400, NOT_UTF8)
    assert reply.headers["content-type"] == "audio/wav"


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_any_method_with_and_without_a_body(up: ScriptedUpstream, proxy: Served, method: str) -> None:
    for body in (b"", b'{"x":1.0}'):
        up.enqueue(replies.raw_reply(200, b"done"))
        reply = call(proxy, method, "/v1/batches/b%2F1", content=body, headers=KEY)
        sent = up.requests[-1]
        assert (sent.method, sent.target, sent.body) == (method, "/v1/batches/b%2F1", body)
        assert sent.header("authorization") == KEY["authorization"] and not sent.is_chunked
        assert reply.content == b"done"


def test_a_chunked_upload_stays_one(up: ScriptedUpstream, proxy: Served) -> None:
    up.enqueue(replies.raw_reply(200))
    call(proxy, "POST", "/v1/files", content=iter([b"one ", b"two"]))
    assert up.requests[-1].is_chunked and up.requests[-1].body == b"one two"
    assert up.requests[-1].header("content-length") is None


@pytest.mark.parametrize("status", [200, 304, 404])
def test_head_has_a_length_and_no_body(up: ScriptedUpstream, proxy: Served, status: int) -> None:
    up.enqueue(Action((replies.Send(replies.head(status, [("x-a", "1")], length=1234)),)))
    data = b"HEAD /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    reply = exchange(port_of(proxy), data, has_body=False, until_closed=True)
    assert (reply.status, reply.header("x-a")) == (status, "1")
    assert reply.header("content-length") == (None if status == 304 else "1234")


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body(up: ScriptedUpstream, proxy: Served, status: int) -> None:
    """A 304 names the length of what it does not send; the link stays in step."""
    up.enqueue(
        Action((replies.Send(replies.head(status, length=0 if status == 204 else 99)),)), replies.raw_reply(200, b"ok")
    )
    ask = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
    with talk(port_of(proxy)) as link:
        link.send(ask)
        assert link.reply().status == status
        link.send(ask)
        assert link.reply().body == b"ok"


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_empty_answers_in_every_framing(up: ScriptedUpstream, proxy: Served, framing: Any) -> None:
    up.enqueue(replies.raw_reply(200, b"", framing=framing))
    assert call(proxy, "GET", "/v1/models").content == b""


def test_events_on_get_arrive_as_they_are_sent(up: ScriptedUpstream, proxy: Served) -> None:
    gate = Gate()
    up.enqueue(replies.stream_reply([b"data: one\n\n", gate, b"data: two\n\n"]))
    with httpx.stream("GET", f"{proxy.base_url}/responses/resp_1?stream=true&starting_after=4", timeout=20) as reply:
        parts = reply.iter_raw()
        assert next(parts) == b"data: one\n\n"  # while upstream waits
        gate.open()
        assert b"".join(parts) == b"data: two\n\n"
    assert up.requests[-1].target == "/v1/responses/resp_1?stream=true&starting_after=4"


def test_a_large_upload_streams_in_bounded_memory() -> None:
    """150 MB up, hashed as they arrive, without a copy of them in the proxy."""
    size, block = 150 << 20, os.urandom(1 << 20)
    with HashingServer() as (port, digests), served_process(f"http://127.0.0.1:{port}/v1") as proxy:
        assert proxy.process is not None
        httpx.post(f"{proxy.base_url}/files", content=b"warm")
        before = resident_mb(proxy.process.pid)
        expected = hashlib.sha256(block * 150).hexdigest()
        peak: list[int] = []

        def blocks() -> Iterator[bytes]:
            for number in range(150):
                yield block
                if number % 10 == 0:
                    assert proxy.process is not None
                    peak.append(resident_mb(proxy.process.pid))

        headers = {"content-length": str(size)}
        reply = httpx.post(f"{proxy.base_url}/files", content=blocks(), headers=headers, timeout=60)
        assert reply.status_code == 200 and digests[-1] == expected
        assert max(peak) - before < 30, (before, peak)


class HashingServer:
    """Reads bodies by their length without keeping them; says only what they hash to."""

    def __init__(self) -> None:
        self.digests: list[str] = []
        self.sock = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> tuple[int, list[str]]:
        threading.Thread(target=self.serve, daemon=True).start()
        return self.sock.getsockname()[1], self.digests

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def serve(self) -> None:
        while True:
            try:
                link, _ = self.sock.accept()
            except OSError:
                return
            with link, link.makefile("rb") as file:
                length = 0
                while (line := file.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                digest = hashlib.sha256()
                while length and (data := file.read1(min(length, 1 << 16))):
                    digest.update(data)
                    length -= len(data)
                self.digests.append(digest.hexdigest())
                link.sendall(replies.head(200, [("connection", "close")], length=0))


def resident_mb(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize() >> 20


def test_a_refusal_during_the_upload_reaches_the_client() -> None:
    """413 from the head alone, while the client is still sending."""
    refusal = replies.raw_reply(413, b"too much", [("connection", "close")])
    with ScriptedUpstream(head_hook=lambda _: Action(refusal.steps, is_last=True)) as up, served(up.base_url) as proxy:
        data = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 50000000\r\n\r\n"
        with talk(port_of(proxy)) as link:
            link.send(data + b"x" * 100_000)
            reply = link.reply()
            assert (reply.status, reply.body) == (413, b"too much")


# -- where it goes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_sec_07_redirects_are_not_followed(up: ScriptedUpstream, proxy: Served, status: int) -> None:
    with ScriptedUpstream() as other:
        location = f"{other.url}/v1/steal"
        for path, body in (
            ("/v1/files", b"x"),
            ("/v1/chat/completions", builders.body_bytes(builders.request([builders.user("a")]))),
        ):
            up.enqueue(replies.redirect_reply(location, status))
            reply = call(proxy, "POST", path, content=body, headers=KEY)
            assert (reply.status_code, reply.headers["location"]) == (status, location)
        assert not other.connections


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/v1/models",
        "http://other.example:80/v1/models",
        "//other.example/v1/models",
        "/v1/models#@other.example",
    ],
)
def test_sec_05_the_target_never_chooses_the_host(up: ScriptedUpstream, proxy: Served, target: str) -> None:
    up.enqueue(replies.raw_reply(200, b"mine"))
    head = (
        f"GET {target} HTTP/1.1\r\nhost: other.example\r\nx-forwarded-host: other.example\r\n"
        "forwarded: host=other.example\r\nauthorization: Bearer k\r\nconnection: close\r\n\r\n"
    )
    assert exchange(port_of(proxy), head.encode()).body == b"mine"
    assert up.requests[-1].header("host") == f"127.0.0.1:{up.port}"


def test_sec_05_connect_is_no_tunnel(up: ScriptedUpstream, proxy: Served) -> None:
    before = len(up.requests)
    reply = exchange(port_of(proxy), b"CONNECT other.example:443 HTTP/1.1\r\nhost: other.example:443\r\n\r\n")
    assert reply.status == 400 and len(up.requests) == before


def test_sec_05_a_base_in_the_body_is_only_text(up: ScriptedUpstream, proxy: Served) -> None:
    body = builders.request([builders.user("a")], api_base="http://169.254.169.254/", base_url="http://other.example")
    up.enqueue(replies.json_reply(replies.completion()))
    headers = {**KEY, "x-upstream-url": "http://other.example", "x-base-url": "http://other.example"}
    assert (
        call(proxy, "POST", "/v1/chat/completions", content=builders.body_bytes(body), headers=headers).status_code
        == 200
    )
    assert up.requests[-1].json()["api_base"] == "http://169.254.169.254/"


QUERY = "api-version=2025-01-01&x=a%2Fb&x=2&e=&y=%20+"


@pytest.mark.parametrize("path", ["chat/completions", "embeddings"])
def test_http_08_the_query_is_identical(up: ScriptedUpstream, proxy: Served, path: str) -> None:
    up.enqueue(replies.json_reply(replies.completion()))
    data = builders.body_bytes(builders.request([builders.user("a")]))
    head = f"POST /v1/{path}?{QUERY} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n"
    assert exchange(port_of(proxy), head.encode() + data).status == 200
    assert up.requests[-1].query == QUERY


BASES = {
    "": "/v1",
    "/": "/v1",
    "/v1": "/v1",
    "/v1/": "/v1",
    "/v4": "/v4",
    "/api/v3": "/api/v3",
    "/llm/v1": "/llm/v1",
    "/openai/deployments/x": "/openai/deployments/x",
    "/openai/deployments/x?api-version=2024-10-21": "/openai/deployments/x",
}


@pytest.mark.parametrize("base", BASES)
def test_ops_01_every_base_and_client_base_meet(up: ScriptedUpstream, base: str) -> None:
    """Chat as a conversation, and another path untouched, from each way that clients spell the base."""
    with served(up.url + base, store__enabled=False) as proxy, httpx.Client(timeout=20) as client:
        body = builders.body_bytes(builders.request([builders.user("a")]))
        for start in ("", "/", "/v1", "/v1/"):
            for path in ("/chat/completions", "/files/f%2F1"):
                up.enqueue(replies.json_reply(replies.completion()))
                assert client.post(proxy.url + start + path, content=body).status_code == 200
                assert up.requests[-1].path == BASES[base] + path
                assert up.requests[-1].query == base.partition("?")[2]


def test_azure_clients_that_spell_the_deployment_themselves(up: ScriptedUpstream) -> None:
    body = builders.body_bytes(builders.request([builders.user("a")]))
    target = "/openai/deployments/x/chat/completions?api-version=2024-10-21"
    for base in ("", "/openai/deployments/x"):
        with served(up.url + base) as proxy:
            up.enqueue(replies.json_reply(replies.completion()))
            reply = call(proxy, "POST", target, content=body, headers={"api-key": "azure-key"})
            assert up.requests[-1].target == target and up.requests[-1].header("api-key") == "azure-key"
            assert reply.headers["x-undercliff-conversation"]


def test_a_scope_in_the_path_names_the_conversation(up: ScriptedUpstream, proxy: Served) -> None:
    """The same words under two names are two conversations; under one name a new beginning stays in it."""

    def ask(name: str, text: str) -> str:
        up.enqueue(replies.json_reply(replies.completion()))
        body = builders.body_bytes(builders.request([builders.user(text)]))
        reply = call(proxy, "POST", f"/s/{name}/v1/chat/completions", content=body, headers=KEY)
        assert up.requests[-1].target == "/v1/chat/completions"
        return reply.headers["x-undercliff-conversation"]

    first, second, third = ask("job%207", "begin"), ask("job-8", "begin"), ask("job%207", "something else")
    assert first == third != second
    up.enqueue(replies.raw_reply(200, b"[]"))
    assert call(proxy, "GET", "/s/job-8/v1/models").content == b"[]"
    assert up.requests[-1].target == "/v1/models"


def test_row_48_a_websocket_is_refused_at_once_and_http_goes_on(up: ScriptedUpstream, proxy: Served) -> None:
    before = len(up.requests)
    upgrade = (
        b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    reply = exchange(port_of(proxy), upgrade, until_closed=True)
    assert reply.status == 426 and reply.json()["error"]["code"] == "upgrade_not_supported"
    assert len(up.requests) == before


@pytest.mark.parametrize("path", ["/v1/files", "/v1/chat/completions"])
def test_an_offer_of_http2_is_ignored(up: ScriptedUpstream, proxy: Served, path: str) -> None:
    """Java's own client offers it with every plain request, a body behind it."""
    up.enqueue(replies.json_reply(replies.completion()), replies.json_reply(replies.completion()))
    body = builders.body_bytes(builders.request([builders.user("a")]))
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        f"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with talk(port_of(proxy)) as link:
        for _ in range(2):
            link.send(head.encode() + body)
            assert link.reply().status == 200
    sent: Request = up.requests[-1]
    assert not any(sent.header(name) for name in ("upgrade", "http2-settings"))
    assert json.loads(sent.body)["messages"]


def test_nothing_that_passes_through_is_kept(up: ScriptedUpstream, proxy: Served) -> None:
    before = len(Records(proxy.db).conversations())
    up.enqueue(replies.json_reply({"data": []}))
    call(proxy, "POST", "/v1/embeddings", json={"input": "words"})
    assert len(Records(proxy.db).conversations()) == before
