"""Every path and method without a wire format: both bodies stream through untouched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from proxy.core.headers import RawHeaders, header, request_headers, response_headers
from proxy.errors import UpstreamError
from proxy.relay import Responder
from proxy.upstream import Upstream, UpstreamResponse
from proxy.wire.errors import JSON_HEADERS, api_error

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

STATUS_OF = {"connect": 502, "closed": 502, "protocol": 502, "timeout": 504}


class ClientGone(Exception):  # noqa: N818 - an event, not a fault
    """The client closed its connection."""


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it arrived. `url` is where it goes; `headers` are the client's, in order."""

    method: str
    path: str
    url: str
    headers: RawHeaders
    tenant: str
    scope: str = ""


async def body_chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The request body as it arrives. Raises `ClientGone`."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        if body := message.get("body", b""):
            yield body
        if not message.get("more_body", False):
            return


async def pass_through(request: RawRequest, receive: Receive, respond: Responder, upstream: Upstream) -> int:
    """Relay one exchange byte for byte; returns the status that the client saw, 499 when it left."""
    headers = request_headers(request.headers, is_rewritten=False)
    content: AsyncIterator[bytes] | None = None
    if length := header(request.headers, b"content-length"):
        if length != "0":
            content = body_chunks(receive)
        headers.append((b"content-length", length.encode("latin-1")))
    elif header(request.headers, b"transfer-encoding"):
        content = body_chunks(receive)
    try:
        response = await upstream.send(request.method, request.url, headers, content)
    except ClientGone:
        return 499
    except UpstreamError as error:
        status = STATUS_OF[error.kind]
        await respond.full(status, JSON_HEADERS, api_error(str(error), code=f"upstream_{error.kind}"))
        return status
    return await _relay(request, response, respond)


async def _relay(request: RawRequest, response: UpstreamResponse, respond: Responder) -> int:
    try:
        await respond.start(response.status, response_headers(response.headers, is_decoded=False))
        while chunk := await response.read():
            await respond.body(chunk)
        response.finish()
        await respond.end()
    except UpstreamError:
        return response.status  # the reply stays unfinished: the server closes the connection
    finally:
        await response.aclose()
    return response.status
