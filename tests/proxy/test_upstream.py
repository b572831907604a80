"""The HTTP client over real sockets: exact URLs, no second sending, no redirects, foreign errors become ours."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yarl

from proxy.errors import UpstreamError
from proxy.upstream import Upstream, UpstreamOptions, is_loopback, proxy_for
from tests.support import replies
from tests.support.upstream import Action, Hang, Reset, ScriptedUpstream


@pytest.fixture
async def up() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[Upstream]:
    upstream = Upstream(UpstreamOptions(read_timeout_s=0.2))
    yield upstream
    await upstream.aclose()


async def read(
    client: Upstream, url: str, method: str = "GET", content: bytes | AsyncIterator[bytes] | None = None
) -> bytes:
    response = await client.send(method, url, [], content)
    body = b""
    while part := await response.read():
        body += part
    response.finish()
    return body


async def test_the_url_goes_out_as_it_is(up: ScriptedUpstream, client: Upstream) -> None:
    up.enqueue(replies.raw_reply(200, b"ok"))
    assert await read(client, f"{up.url}/v1/a%2Fb;c?x=a%2fb&x=2&y=%20+") == b"ok"
    assert up.requests[0].target == "/v1/a%2Fb;c?x=a%2fb&x=2&y=%20+"


async def test_redirects_are_answers(up: ScriptedUpstream, client: Upstream) -> None:
    up.enqueue(replies.redirect_reply("http://127.0.0.1:1/elsewhere", 307))
    response = await client.send("POST", f"{up.url}/v1/x", [(b"authorization", b"Bearer k")], b"body")
    assert response.status == 307 and len(up.requests) == 1
    await response.aclose()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
async def test_nothing_is_ever_sent_twice(up: ScriptedUpstream, client: Upstream, method: str) -> None:
    """A reused link that closes without an answer: whether the request was carried out is not known."""
    up.enqueue(replies.raw_reply(200, b"ok"), replies.close_without_a_byte(), replies.raw_reply(200, b"again"))
    await read(client, up.url)

    async def parts() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    with pytest.raises(UpstreamError) as caught:
        await read(client, up.url, method, None if method in ("GET", "DELETE") else parts())
    assert caught.value.kind == "closed"
    assert len(up.requests) == 2 and len(up.connections) == 1


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (replies.close_without_a_byte(), "closed"),
        (replies.close_without_a_byte(reset=True), "closed"),
        (Action((Hang(),)), "timeout"),
        (Action((replies.Send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),), is_last=True), "protocol"),
    ],
)
async def test_foreign_errors_become_ours(up: ScriptedUpstream, client: Upstream, action: Action, kind: str) -> None:
    up.enqueue(action)
    with pytest.raises(UpstreamError) as caught:
        await read(client, up.url, "POST", b"x")
    assert caught.value.kind == kind


async def test_nobody_listens(client: Upstream) -> None:
    with pytest.raises(UpstreamError) as caught:
        await client.send("GET", "http://127.0.0.1:9/", [], None)
    assert caught.value.kind == "connect"


@pytest.mark.parametrize("reset", [True, False])
async def test_a_body_that_breaks_off(up: ScriptedUpstream, client: Upstream, reset: bool) -> None:
    up.enqueue(replies.cut_stream([b"data: a\n\n", 0.02], reset=reset))
    response = await client.send("POST", up.url, [], b"x")
    assert await response.read() == b"data: a\n\n"
    with pytest.raises(UpstreamError) as caught:
        await response.read()
    assert caught.value.kind == "closed"
    await response.aclose()
    await response.aclose()


@pytest.mark.parametrize("reset", [True, False])
async def test_what_arrived_before_a_break_is_read_before_the_break(
    up: ScriptedUpstream, client: Upstream, reset: bool
) -> None:
    """A reader that is late by more than the whole reply loses none of it."""
    up.enqueue(replies.cut_stream([b"data: a\n\n", b"data: b\n\n"], reset=reset))
    response = await client.send("POST", up.url, [], b"x")
    engine = response._response
    async with asyncio.timeout(20):
        while engine.content.exception() is None:
            await asyncio.sleep(0)
    assert await response.read() == b"data: a\n\ndata: b\n\n"
    with pytest.raises(UpstreamError) as caught:
        await response.read()
    assert caught.value.kind == "closed"
    await response.aclose()


async def test_a_reply_that_is_left_closes_the_link_and_one_read_to_its_end_keeps_it(
    up: ScriptedUpstream, client: Upstream
) -> None:
    up.enqueue(replies.raw_reply(200, b"ok"), replies.raw_reply(200, b"ok"), replies.head_then_silence())
    await read(client, up.url)
    await read(client, up.url)
    assert len(up.connections) == 1
    response = await client.send("GET", up.url, [], None)
    await response.aclose()
    await up.wait_closed(1)


async def test_a_read_may_be_given_up_and_taken_up_again(up: ScriptedUpstream, client: Upstream) -> None:
    up.enqueue(replies.stream_reply([b"one", 0.05, b"two"]))
    response = await client.send("GET", up.url, [], None)
    got = b""
    for _ in range(200):
        try:
            async with asyncio.timeout(0.001):
                part = await response.read()
        except TimeoutError:
            continue
        if not part:
            break
        got += part
    assert got == b"onetwo"


async def test_a_body_that_a_closing_link_did_not_take_is_sent_once_more(client: Upstream) -> None:
    """The other side closes after the head, long before it could have read the body: nothing was carried out."""
    refused = iter([Action((Reset(),))])
    up = ScriptedUpstream(lambda _: replies.json_reply({"fine": True}), head_hook=lambda _: next(refused, None))
    async with up:
        response = await client.send("POST", f"{up.url}/v1/x", [], b"x" * (32 << 20))
        assert response.status == 200
        await response.read()
        await response.aclose()
    assert up.bodies_read == 1
    assert len(up.connections) == 2


async def test_header_values_go_out_as_they_came(up: ScriptedUpstream, client: Upstream) -> None:
    up.enqueue(replies.raw_reply(200))
    sent = [(b"x-title", "Möwe".encode()), (b"x-many", b"1"), (b"x-many", b"2"), (b"user-agent", b"curl/8")]
    response = await client.send("GET", up.url, sent, None)
    await response.aclose()
    lines = up.requests[0].raw_head.split(b"\r\n")[1:-2]
    assert [line for line in lines if not line.startswith(b"Host:")] == [name + b": " + value for name, value in sent]


@pytest.mark.parametrize("lines", [1, 300], ids=["one long", "many"])
async def test_large_heads_of_replies_are_read(up: ScriptedUpstream, client: Upstream, lines: int) -> None:
    headers = [(f"x-{n}", "a" * (20_000 // lines)) for n in range(lines)]
    up.enqueue(replies.raw_reply(200, b"ok", headers))
    response = await client.send("GET", up.url, [], None)
    assert len(response.headers) == lines + 1 and await response.read() == b"ok"
    await response.aclose()


@pytest.mark.parametrize("status", [101, 999])
async def test_a_status_that_cannot_be_passed_on(up: ScriptedUpstream, client: Upstream, status: int) -> None:
    up.enqueue(replies.raw_reply(status))
    with pytest.raises(UpstreamError) as caught:
        await client.send("GET", up.url, [], None)
    assert caught.value.kind == "protocol"


# -- proxies named by the environment (OPS-03) ---------------------------------------------------------

DEAD = "http://127.0.0.1:9"


@pytest.fixture
def dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, DEAD)
        monkeypatch.setenv(name.lower(), DEAD)


@pytest.mark.usefixtures("dead_proxy")
def test_the_environments_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for(yarl.URL("https://llm.example/v1")) == DEAD
    for url in ("http://localhost:1/v1", "http://127.8.8.8/", "http://[::1]:8000/v1", "http://a.localhost"):
        assert proxy_for(yarl.URL(url)) is None
    for listed in ("llm.example", "10.0.0.0/8,::1,localhost,.example", "*"):
        monkeypatch.setenv("NO_PROXY", listed)
        monkeypatch.setenv("no_proxy", listed)
        assert proxy_for(yarl.URL("https://llm.example/v1")) is None
    assert not is_loopback("127.example.com") and not is_loopback("10.0.0.1")


@pytest.mark.usefixtures("dead_proxy")
@pytest.mark.parametrize("trust_env", [True, False])
async def test_loopback_is_reached_whatever_the_environment_says(up: ScriptedUpstream, trust_env: bool) -> None:
    client = Upstream(UpstreamOptions(trust_env=trust_env))
    up.enqueue(replies.raw_reply(200, b"ok"))
    assert await read(client, up.url) == b"ok"
    if trust_env:
        with pytest.raises(UpstreamError) as caught:
            await read(client, "http://llm.invalid/v1")
        assert caught.value.kind == "connect" and ":9" in str(caught.value)
    await client.aclose()


async def test_no_netrc_is_sent(up: ScriptedUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-06: what lies on this machine for the host is nobody's key here."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    client = Upstream(UpstreamOptions(trust_env=True))
    up.enqueue(replies.raw_reply(200))
    await read(client, up.url)
    await client.aclose()
    assert up.requests[0].header("authorization") is None


# -- both families (OPS-05) ----------------------------------------------------------------------------


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
@pytest.mark.parametrize("order", [("::1", "127.0.0.1"), ("127.0.0.1", "::1")])
@pytest.mark.parametrize("only", ["127.0.0.1", "::1"])
async def test_localhost_is_reached_on_whichever_family_it_listens(
    client: Upstream, only: str, order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def both(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != "localhost":
            return real(host, port, *args, **options)
        return [real(each, port, type=socket.SOCK_STREAM)[0] for each in order]

    monkeypatch.setattr(socket, "getaddrinfo", both)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(replies.head(200, [("connection", "close")], length=2) + b"ok")
        writer.close()

    async with await asyncio.start_server(answer, only) as server:
        port = server.sockets[0].getsockname()[1]
        assert await read(client, f"http://localhost:{port}/v1") == b"ok"
        host = f"[{only}]" if ":" in only else only
        assert await read(client, f"http://{host}:{port}/v1") == b"ok"
