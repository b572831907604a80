"""Every path and method without a wire format: both bodies stream through untouched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from proxy.core.headers import RawHeaders, header, request_headers, response_headers
from proxy.errors import UpstreamError
from proxy.link import ClientGoneError, ClientLink
from proxy.relay import Responder
from proxy.upstream import Upstream, UpstreamResponse
from proxy.wire.errors import JSON_HEADERS, api_error


class Watch(Protocol):
    """Is shown a copy of one answer. Never raises."""

    def start(self, response: UpstreamResponse) -> None:
        """The head has arrived."""
        ...

    def feed(self, chunk: bytes) -> None:
        """Bytes of the body, as they passed."""
        ...

    async def finish(self) -> None:
        """The body is over, or broke off."""
        ...


STATUS_OF = {"connect": 502, "closed": 502, "protocol": 502, "timeout": 504}


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it arrived. `url` is where it goes; `headers` are the client's, in order."""

    method: str
    path: str
    url: str
    headers: RawHeaders
    tenant: str
    scope: str = ""


async def pass_through(
    request: RawRequest,
    link: ClientLink,
    respond: Responder,
    upstream: Upstream,
    watch: Watch | None = None,
    body: bytes | None = None,
) -> int:
    """Relay one exchange byte for byte; returns the status that the client saw, 499 when it left.

    `watch` is shown a copy of the answer. `body`: the request's, where it has been read already.
    """
    headers = request_headers(request.headers, is_rewritten=body is not None)
    content: AsyncIterator[bytes] | bytes | None = body
    if body is not None:
        pass  # it has its length already
    elif length := header(request.headers, b"content-length"):
        if length != "0":
            content = link.chunks()
        headers.append((b"content-length", length.encode("latin-1")))
    elif header(request.headers, b"transfer-encoding"):
        content = link.chunks()
    try:
        response = await upstream.send(request.method, request.url, headers, content)
    except ClientGoneError:
        return 499
    except UpstreamError as error:
        status = STATUS_OF[error.kind]
        await respond.full(status, JSON_HEADERS, api_error(str(error), code=f"upstream_{error.kind}"))
        return status
    return await _relay(response, respond, watch)


async def _relay(response: UpstreamResponse, respond: Responder, watch: Watch | None) -> int:
    try:
        if watch is not None:
            watch.start(response)
        await respond.start(response.status, response_headers(response.headers, is_decoded=False))
        while chunk := await response.read():
            if watch is not None:
                watch.feed(chunk)
            await respond.body(chunk)
        response.finish()
        await respond.end()
    except UpstreamError:
        return response.status  # the reply stays unfinished: the server closes the connection
    finally:
        if watch is not None:
            await watch.finish()
        await response.aclose()
    return response.status
