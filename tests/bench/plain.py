"""A plain pass-through with the product's own engine, to compare with: no decoding, no store, bytes relayed as read.

Run it with `python -m tests.bench.plain UPSTREAM_URL PORT`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from proxy.config import ServerConfig
from proxy.core.headers import request_headers, response_headers
from proxy.listening import server_options
from proxy.upstream import Upstream, UpstreamOptions

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Plain:
    """The least that a proxy can do with this engine."""

    def __init__(self, upstream_url: str) -> None:
        self._base = upstream_url
        self._upstream = Upstream(UpstreamOptions(max_connections=12_000))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["path"] == "/ctx/ready":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        parts = []
        while True:
            message = await receive()
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        body = b"".join(parts)
        headers = request_headers(scope["headers"], is_rewritten=False)
        response = await self._upstream.send(scope["method"], self._base + scope["path"], headers, body)
        out = response_headers(response.headers, is_decoded=False)
        await send({"type": "http.response.start", "status": response.status, "headers": out})
        while chunk := await response.read():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        response.finish()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def main(upstream_url: str, port: int) -> None:
    options = {**server_options(ServerConfig()), "lifespan": "off", "host": "127.0.0.1", "port": port}
    uvicorn.Server(uvicorn.Config(Plain(upstream_url), **options)).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
