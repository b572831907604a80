"""The edges of a deployment: a front server before the proxy, its stop announced, bodies that nobody keeps."""

from __future__ import annotations

import gc
import signal
import socket
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy import app as proxy_app
from proxy import listening
from proxy.config import ServerConfig, load_config
from proxy.errors import ConfigError
from proxy.link import ClientLink
from tests.support import builders, replies
from tests.support.raw import talk
from tests.support.records import eventually
from tests.support.serve import Served, served, served_process
from tests.support.upstream import Action, Hang, ScriptedUpstream

CHAT = builders.request([builders.user("high water?")])


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(lambda _: replies.json_reply(replies.completion("yes"))) as server:
        yield server


# -- front servers -----------------------------------------------------------------------------------


def test_what_a_front_server_adds_ends_here(up: ScriptedUpstream) -> None:
    """And callers without a key are told apart by their own address, not by the front server's."""
    said = {"x-forwarded-proto": "https", "x-real-ip": "203.0.113.9", "forwarded": "for=203.0.113.9", "via": "1.1 x"}
    with served(up.base_url, server__forwarded_allow_ips=["127.0.0.1"]) as proxy:
        names = set()
        for address in ("203.0.113.9", "203.0.113.10", "203.0.113.9"):
            headers = {**said, "x-forwarded-for": address, "x-own": "stays"}
            reply = httpx.post(f"{proxy.base_url}/chat/completions", json=CHAT, headers=headers)
            names.add(reply.headers["x-undercliff-conversation"])
            sent = {name.lower() for name, _ in up.requests[-1].headers}
            assert "x-own" in sent and not sent & {"x-forwarded-for", *said}
    assert len(names) == 2


def test_without_trust_headers_pass_as_they_are(up: ScriptedUpstream) -> None:
    with served(up.base_url) as proxy:
        httpx.post(f"{proxy.base_url}/chat/completions", json=CHAT, headers={"x-forwarded-for": "203.0.113.9"})
        assert up.requests[-1].header("x-forwarded-for") == "203.0.113.9"


@pytest.mark.parametrize(
    ("entry", "named"),
    [("*", "no address"), ("front", "no address"), ("0.0.0.0/0", "everybody"), ("10.0.0.1/8", "bits")],
)
def test_only_addresses_are_trusted(entry: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        load_config(overrides={"server.forwarded_allow_ips": [entry]}, environ={})
    assert entry in str(caught.value) and caught.value.hint


# -- a stop that is announced --------------------------------------------------------------------------


def test_a_server_that_stops_says_so_first_and_serves_on(up: ScriptedUpstream, tmp_path: Path) -> None:
    with served_process(up.base_url, tmp_path, server__drain_delay_s=30) as proxy:
        assert httpx.get(f"{proxy.url}/ctx/ready").status_code == 200
        assert proxy.process is not None
        proxy.process.send_signal(signal.SIGTERM)
        eventually(lambda: httpx.get(f"{proxy.url}/ctx/ready").status_code == 503)
        assert httpx.get(f"{proxy.url}/ctx/health").status_code == 200
        assert httpx.post(f"{proxy.base_url}/chat/completions", json=CHAT).status_code == 200
        proxy.process.send_signal(signal.SIGTERM)  # once more: now
        assert proxy.process.wait(timeout=20) == 0


# -- nothing of a request outlives it ------------------------------------------------------------------


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    """Every request's reader and every connection, weakly; no collection runs meanwhile."""
    seen: list[weakref.ref[Any]] = []

    class Link(ClientLink):
        def __init__(self, receive: Any) -> None:
            super().__init__(receive)
            seen.append(weakref.ref(self))

    class Protocol(listening.HttpProtocol):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            seen.append(weakref.ref(self.cycle))

    monkeypatch.setattr(proxy_app, "ClientLink", Link)
    monkeypatch.setattr(listening, "HttpProtocol", Protocol)
    gc.collect()
    gc.disable()
    yield seen
    gc.enable()


CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


def announce(size: int) -> bytes:
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size


def leave_early(proxy: Served, lines: bytes, size: int) -> None:
    with talk(int(proxy.url.rsplit(":", 1)[1])) as link:
        link.send(lines + b"a" * size)


@pytest.mark.parametrize("case", ["aborted", "too large", "no key", "hung up", "served"])
def test_no_body_outlives_its_request(up: ScriptedUpstream, kept: list[weakref.ref[Any]], case: str) -> None:
    """A group of exceptions once held the frames of its request until a collection, each with a body of megabytes."""
    settings: dict[str, Any] = {"server__max_body_mb": 1}
    if case == "no key":
        settings["server__client_keys"] = ["sesame"]
    with served(up.base_url, **settings) as proxy:
        for _ in range(5):
            if case == "aborted":
                leave_early(proxy, announce(900_000), 500_000)
            elif case == "too large":
                leave_early(proxy, CHUNKED + b"1f0000\r\n", 0x1F0000)
            elif case == "hung up":
                up.enqueue(Action((Hang(),)))
                body, before = builders.body_bytes(CHAT), up.received.value
                with socket.create_connection(("127.0.0.1", int(proxy.url.rsplit(":", 1)[1]))) as client:
                    client.sendall(announce(len(body)) + body)
                    up.received.wait_sync(before + 1)
            else:
                httpx.post(f"{proxy.base_url}/chat/completions", json=CHAT)
        eventually(lambda: len(kept) >= 5 and not [one for one in kept if one() is not None])


def test_the_limits_are_on_by_default() -> None:
    server = ServerConfig()
    assert 0 < server.head_timeout_s <= 60 and 0 < server.body_timeout_s <= 120
