"""The proxy's own paths: health tells whether words are kept, readiness whether requests are served."""

from __future__ import annotations

import json

import pytest

from proxy.admin import Admin
from proxy.relay import Responder
from proxy.store.null import NullStore
from tests.support.asgi import Sent


async def ask(admin: Admin, path: str, method: str = "GET") -> Sent:
    sent = Sent()
    await admin.answer(method, path, Responder(sent))
    assert sent.is_complete
    return sent


async def test_health_tells_of_a_store_that_fails() -> None:
    store = NullStore()
    admin = Admin(store=store, version="1.2")
    assert json.loads((await ask(admin, "/ctx/health")).body) == {"status": "ok", "store": "ok", "version": "1.2"}
    store.is_degraded = True  # type: ignore[misc]
    reply = await ask(admin, "/ctx/health")
    assert reply.status == 200 and json.loads(reply.body)["store"] == "degraded"


async def test_readiness_is_a_status() -> None:
    admin = Admin(store=NullStore(), version="1")
    assert (await ask(admin, "/ctx/ready")).status == 503
    admin.is_ready = True
    assert (await ask(admin, "/ctx/ready")).status == 200


@pytest.mark.parametrize("path", ["/ctx", "/ctx/", "/ctx/health/x", "/ctx/export"])
async def test_other_paths_are_not_there(path: str) -> None:
    reply = await ask(Admin(store=NullStore(), version="1"), path)
    assert reply.status == 404 and json.loads(reply.body)["error"]["code"] == "not_found"


async def test_methods() -> None:
    admin = Admin(store=NullStore(), version="1")
    get, head = await ask(admin, "/ctx/health"), await ask(admin, "/ctx/health", "HEAD")
    assert head.headers == get.headers  # a server sends no body to HEAD, but its length
    refused = await ask(admin, "/ctx/health", "DELETE")
    assert refused.status == 405 and refused.header(b"allow") == "GET, HEAD"
