from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from proxy.demo.serving import serving


async def hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hi"})


async def broken(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no"})


def test_it_serves_until_the_block_ends() -> None:
    with serving(hello, lifespan="off") as url:
        assert httpx.get(url, trust_env=False).text == "hi"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_an_app_that_fails_to_start_is_told_at_once() -> None:
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="did not start"), serving(broken, lifespan="on", log_level="critical"):
        pass
    assert time.monotonic() - started < 10
