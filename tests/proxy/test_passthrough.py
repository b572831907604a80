"""One exchange without a wire format: how a body is announced upstream, and what the client sees when it fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from proxy.core.headers import RawHeaders
from proxy.link import ClientLink
from proxy.passthrough import RawRequest, pass_through
from proxy.relay import Responder
from proxy.upstream import Upstream, UpstreamOptions
from tests.support import replies
from tests.support.asgi import Sent, receiving
from tests.support.upstream import Action, Hang, ScriptedUpstream


@pytest.fixture
async def up() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[Upstream]:
    upstream = Upstream(UpstreamOptions(read_timeout_s=0.2))
    yield upstream
    await upstream.aclose()


async def run(
    up: ScriptedUpstream,
    client: Upstream,
    headers: RawHeaders,
    *parts: bytes,
    method: str = "POST",
    leaves: bool = False,
) -> tuple[int, Sent]:
    sent = Sent()
    request = RawRequest(method, "/v1/files", f"{up.base_url}/files", headers, "t")
    status = await pass_through(request, ClientLink(receiving(*parts, leaves=leaves)), Responder(sent), client)
    return status, sent


LENGTH = [(b"content-length", b"7")]
CHUNKED = [(b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET"])
@pytest.mark.parametrize("headers", [LENGTH, CHUNKED], ids=["length", "chunked"])
async def test_a_body_is_announced_as_the_client_did(
    up: ScriptedUpstream, client: Upstream, headers: RawHeaders, method: str
) -> None:
    up.enqueue(replies.raw_reply(201, b"kept", [("x-a", "1")]))
    status, sent = await run(up, client, headers, b"one", b" two", method=method)
    (request,) = up.requests
    assert (request.method, request.body) == (method, b"one two")
    assert request.is_chunked == (headers is CHUNKED)
    assert request.header_list("content-length") == ([] if headers is CHUNKED else ["7"])
    assert (status, sent.body, sent.is_complete) == (201, b"kept", True)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
async def test_no_body_is_announced_where_there_is_none(up: ScriptedUpstream, client: Upstream, method: str) -> None:
    up.enqueue(replies.raw_reply(204))
    await run(up, client, [], method=method)
    assert not up.requests[0].is_chunked and up.requests[0].header("content-length") in (None, "0")


@pytest.mark.parametrize(
    ("action", "status", "code"),
    [
        (replies.close_without_a_byte(), 502, "upstream_closed"),
        (Action((Hang(),)), 504, "upstream_timeout"),
    ],
)
async def test_no_answer_is_an_error_in_the_apis_shape(
    up: ScriptedUpstream, client: Upstream, action: Action, status: int, code: str
) -> None:
    up.enqueue(action)
    seen, sent = await run(up, client, LENGTH, b"one two")
    assert seen == sent.status == status and json.loads(sent.body)["error"]["code"] == code


async def test_a_reply_that_breaks_off_is_not_ended(up: ScriptedUpstream, client: Upstream) -> None:
    up.enqueue(replies.cut_stream([b"half", 0.02]))
    _, sent = await run(up, client, LENGTH, b"one two")
    assert sent.body == b"half" and not sent.is_complete


async def test_a_client_that_leaves_in_its_body_sends_no_whole_request(up: ScriptedUpstream, client: Upstream) -> None:
    _, sent = await run(up, client, CHUNKED, b"one", leaves=True)
    await up.wait_closed(1)
    assert up.bodies_read == 0 and (not sent.messages or sent.status >= 499)
