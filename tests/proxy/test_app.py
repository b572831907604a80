"""Routing: which requests are answered here, which are refused, and where the others go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.app import App
from proxy.errors import StoreError
from tests.support import builders, replies
from tests.support.asgi import Sent, receiving, scope
from tests.support.serve import make_config
from tests.support.upstream import ScriptedUpstream

CHAT = builders.body_bytes(builders.request([builders.user("high water?")]))


@pytest.fixture
async def up() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as server:
        yield server


@asynccontextmanager
async def running(up: ScriptedUpstream, tmp_path: Path, **settings: object) -> AsyncIterator[App]:
    app = App(make_config(up.base_url, tmp_path / "x.db", {k.replace("__", "."): v for k, v in settings.items()}))
    await app.start()
    yield app
    await app.stop()


async def ask(app: App, method: str, path: str, body: bytes = b"", **options: Any) -> Sent:
    sent = Sent()
    headers = [*options.pop("headers", ()), (b"content-length", str(len(body)).encode())]
    await app(scope(method, path, headers, **options), receiving(body), sent)
    return sent


async def test_own_paths_scope_and_everything_else(up: ScriptedUpstream, tmp_path: Path) -> None:
    up.handler = lambda request: replies.json_reply(replies.completion(request.path))
    async with running(up, tmp_path) as app:
        assert json.loads((await ask(app, "GET", "/ctx/ready")).body) == {"ready": True}
        assert (await ask(app, "GET", "/ctx")).status == 404
        assert not up.requests
        await ask(app, "GET", "/v1/models", query=b"x=a%2Fb&x=2")
        await ask(app, "DELETE", "/s/job%207/v1/files/f%2F1")
        reply = await ask(app, "POST", "/s/job/v1/chat/completions", CHAT)
        assert [r.target for r in up.requests] == [
            "/v1/models?x=a%2Fb&x=2",
            "/v1/files/f%2F1",
            "/v1/chat/completions",
        ]
        assert reply.header(b"x-undercliff-conversation")


@pytest.mark.parametrize("value", [b"websocket", b"WebSocket", b"h2c, websocket"])
async def test_a_websocket_is_refused_at_once(up: ScriptedUpstream, tmp_path: Path, value: bytes) -> None:
    """Row 48 of the client matrix."""
    async with running(up, tmp_path) as app:
        reply = await ask(app, "GET", "/v1/responses", headers=[(b"upgrade", value), (b"connection", b"Upgrade")])
        assert reply.status == 426 and not up.requests


async def test_a_fault_of_ours_is_an_answer(
    up: ScriptedUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> None:
        raise RuntimeError("sk-secret-of-somebody")

    monkeypatch.setattr("proxy.app.pass_through", fails)
    async with running(up, tmp_path) as app:
        reply = await ask(app, "GET", "/v1/models")
        assert reply.status == 503 and json.loads(reply.body)["error"]["code"] == "internal_error"
        assert b"sk-secret" not in reply.body


async def test_what_was_opened_is_closed_when_a_start_fails(up: ScriptedUpstream, tmp_path: Path) -> None:
    (tmp_path / "x.secret").mkdir()
    app = App(make_config(up.base_url, tmp_path / "x.db"))
    with pytest.raises(StoreError, match=r"x\.secret"):
        await app.start()
    assert not (tmp_path / "x.db-wal").exists()  # the last connection takes it away
    await app.stop()


async def test_lifespan_tells_the_server_why(up: ScriptedUpstream, tmp_path: Path) -> None:
    (tmp_path / "x.db").mkdir()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    app = App(make_config(up.base_url, tmp_path / "x.db"))
    await app({"type": "lifespan"}, receiving(), send)
    assert sent[0]["type"] == "lifespan.startup.failed" and str(tmp_path / "x.db") in sent[0]["message"]
