"""The port: opening it, heads within limits, and refusals in the API's shape. Over raw sockets."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.config import ServerConfig
from proxy.demo.serving import serving
from proxy.errors import ConfigError
from proxy.listening import LEAST_BODY_BYTES, MAX_HEAD_BYTES, Server, close, open_port, server_options
from tests.support.raw import exchange, talk

has_ipv6 = pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what it was asked, as JSON."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] == "http.disconnect" or not message["more_body"]:
            break
    seen = {"path": scope["path"], "body": body.decode(), "headers": [n.decode() for n, _ in scope["headers"]]}
    data = json.dumps(seen).encode()
    length = (b"content-length", str(len(data)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": data, "more_body": False})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    options = {**server_options(ServerConfig()), "lifespan": "off"}
    with serving(echo, **options) as url:
        yield int(url.rsplit(":", 1)[1])


def head(*lines: str, method: str = "GET", path: str = "/") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: x", *lines, "", ""]).encode()


def test_a_head_within_the_limit(port: int) -> None:
    assert exchange(port, head(f"x-big: {'a' * (MAX_HEAD_BYTES - 1000)}")).status == 200


@pytest.mark.parametrize(
    "data",
    [
        head(f"x-big: {'a' * MAX_HEAD_BYTES}"),
        head(*(f"x-{n}: 1" for n in range(MAX_HEAD_BYTES // 8))),
        head(path="/" + "a" * MAX_HEAD_BYTES),
        head()[:-2] + b"x-endless: " + b"a" * (4 * MAX_HEAD_BYTES),
        b"GET /" + b"a" * (4 * MAX_HEAD_BYTES),
    ],
    ids=["one header", "many headers", "path", "endless header", "endless line"],
)
def test_floods_are_refused_and_closed(port: int, data: bytes) -> None:
    reply = exchange(port, data, until_closed=True)
    assert reply.status == 431 and reply.json()["error"]["code"] == "headers_too_large"


CHUNKED = head("transfer-encoding: chunked", method="POST") + b"5\r\nhello\r\n"


@pytest.mark.parametrize("data", [b"0\r\nx-endless: ", b"5;ext="], ids=["trailer", "chunk extension"])
def test_floods_behind_the_head(port: int, data: bytes) -> None:
    reply = exchange(port, CHUNKED + data + b"a" * (4 * MAX_HEAD_BYTES), until_closed=True)
    assert reply.status == 431


def test_a_trailer_is_no_header(port: int) -> None:
    reply = exchange(port, CHUNKED + b"0\r\nauthorization: Bearer late\r\n\r\n")
    assert reply.json()["body"] == "hello" and "authorization" not in reply.json()["headers"]


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /\x00 HTTP/1.1\r\n\r\n", b"?\r\n\r\n"]
)
def test_what_is_not_http_gets_one_clean_answer(port: int, data: bytes) -> None:
    reply = exchange(port, data, until_closed=True)
    assert reply.status == 400 and reply.json()["error"]["code"] == "invalid_http"
    assert reply.header("content-type") == "application/json"


def test_nothing_is_mixed_into_an_answer_that_is_on_its_way() -> None:
    """A broken second request on the link of a first whose answer is half sent."""

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"8")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await asyncio.wait_for(receive(), 5)

    with (
        serving(slow, **{**server_options(ServerConfig()), "lifespan": "off"}) as url,
        talk(int(url.rsplit(":", 1)[1])) as link,
    ):
        link.send(head())
        link.read_until(b"half")
        link.send(b"\x00\x01 broken\r\n\r\n")
        assert link.read_all() == b""


# -- slow clients ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strict_port() -> Iterator[int]:
    limits = ServerConfig(keep_alive_s=1, head_timeout_s=0.3, body_timeout_s=0.3)
    with serving(echo, **{**server_options(limits), "lifespan": "off"}) as url:
        yield int(url.rsplit(":", 1)[1])


@pytest.mark.parametrize(
    "data", [b"GET / HT", head()[:-2], head()[:-2] + b"x-slow: 1"], ids=["line", "fields", "field"]
)
def test_a_head_that_never_ends_is_refused(strict_port: int, data: bytes) -> None:
    reply = exchange(strict_port, data, until_closed=True)
    assert reply.status == 408 and reply.json()["error"]["code"] == "request_timeout"


@pytest.mark.parametrize("lines", [("content-length: 900000",), ("transfer-encoding: chunked",)])
def test_a_body_that_never_ends_is_refused(strict_port: int, lines: tuple[str, ...]) -> None:
    with talk(strict_port) as link:
        link.send(head(*lines, method="POST"))
        for _ in range(100):  # a byte now and then buys no time
            link.send(b"1\r\na\r\n")
            if select.select([link.sock], [], [], 0.05)[0]:
                break
        assert link.reply().status == 408
        assert link.read_all() == b""


def test_a_body_that_comes_slowly_but_comes_is_taken(strict_port: int) -> None:
    piece = b"a" * (2 * LEAST_BODY_BYTES)
    with talk(strict_port) as link:
        link.send(head(f"content-length: {len(piece) * 8}", method="POST"))
        for _ in range(8):
            time.sleep(0.15)
            link.send(piece)
        assert link.reply().json()["body"] == (piece * 8).decode()


def test_a_silent_connection_is_closed_without_a_word(strict_port: int) -> None:
    with talk(strict_port) as link:
        assert link.read_all() == b""


def test_an_answer_that_takes_long_is_not_the_client_s_fault() -> None:
    async def thinking(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(1)
        await echo(scope, receive, send)

    limits = ServerConfig(keep_alive_s=5, head_timeout_s=0.2, body_timeout_s=0.2)
    with (
        serving(thinking, **{**server_options(limits), "lifespan": "off"}) as url,
        talk(int(url.rsplit(":", 1)[1])) as link,
    ):
        for _ in range(2):
            link.send(head("content-length: 2", method="POST") + b"ok")
            assert link.reply().json()["body"] == "ok"


# -- front servers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trusted", "said", "seen"),
    [
        ((), "203.0.113.9", "127.0.0.1"),
        (("192.0.2.0/24",), "203.0.113.9", "127.0.0.1"),
        (("127.0.0.0/8",), "203.0.113.9", "203.0.113.9"),
        (("127.0.0.1",), "198.51.100.1, 203.0.113.9", "203.0.113.9"),  # what a client says itself stands on the left
        (("127.0.0.1", "203.0.113.0/24"), "198.51.100.1, 203.0.113.9", "198.51.100.1"),
    ],
)
def test_only_a_front_server_says_who_asks(trusted: tuple[str, ...], said: str, seen: str) -> None:
    peers: list[str] = []

    async def note(scope: Any, receive: Any, send: Any) -> None:
        peers.append(scope["client"][0])
        await echo(scope, receive, send)

    options = server_options(ServerConfig(forwarded_allow_ips=trusted))
    with serving(note, **{**options, "lifespan": "off"}) as url:
        exchange(int(url.rsplit(":", 1)[1]), head(f"x-forwarded-for: {said}"))
    assert peers == [seen]


# -- the port ----------------------------------------------------------------------------------------


def test_a_port_in_use_is_one_clear_error() -> None:
    taken = open_port("127.0.0.1", 0)
    try:
        port = taken[0].getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            open_port("127.0.0.1", port)
        assert str(caught.value) == f"cannot listen on 127.0.0.1:{port}: something listens there already"
        assert "--port" in caught.value.hint
    finally:
        close(taken)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "x" * 70 + ".invalid"])
def test_a_host_that_is_not_ours(host: str) -> None:
    with pytest.raises(ConfigError, match="no address of this machine"):
        open_port(host, 0)


@has_ipv6
@pytest.mark.parametrize(("host", "families"), [("::1", {socket.AF_INET6}), ("127.0.0.1", {socket.AF_INET})])
def test_one_family(host: str, families: set[int]) -> None:
    sockets = open_port(host, 0)
    assert {each.family for each in sockets} == families
    close(sockets)


@has_ipv6
def test_ops_05_a_name_with_both_families_listens_on_both(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    sockets = open_port("localhost", 0)
    assert {each.family for each in sockets} == {socket.AF_INET, socket.AF_INET6}
    assert len({each.getsockname()[1] for each in sockets}) == 1
    close(sockets)


def test_the_application_starts_before_the_first_request_and_stops_after_the_last() -> None:
    events: list[str] = []

    class Recorder:
        async def start(self) -> None:
            events.append("start")

        def retire(self) -> None:
            events.append("retire")

        async def stop(self) -> None:
            events.append("stop")

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            events.append("request")
            await echo(scope, receive, send)

    def ready(port: int) -> None:
        events.append("ready")
        server.should_exit = True
        assert port == sockets[0].getsockname()[1]

    sockets = open_port("127.0.0.1", 0)
    server = Server(Recorder(), ServerConfig(), ready)
    server.run(sockets)
    assert events == ["start", "ready", "retire", "stop"]
