"""The proxy's own paths under /ctx: health and readiness. Nothing here touches a conversation's content."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson

from proxy.compactor import Counters
from proxy.relay import Responder
from proxy.store.base import Store
from proxy.wire.errors import JSON_HEADERS, api_error

OWN_PATHS = frozenset({"/ctx/health", "/ctx/ready"})
"""What everyone may ask; all other paths under /ctx are the page's, and guarded."""


@dataclass(slots=True)
class Admin:
    """Answers /ctx/health (the process lives; says if it is degraded) and /ctx/ready (it can serve).

    HEAD is answered like GET: the server leaves the body away.
    """

    store: Store
    version: str
    is_ready: bool = False
    summaries: Counters | None = None  # None where no model is asked for any

    async def answer(self, method: str, path: str, respond: Responder) -> None:
        if method not in ("GET", "HEAD"):
            body = api_error(f"{method} is not allowed here", code="method_not_allowed")
            await respond.full(405, [*JSON_HEADERS, (b"allow", b"GET, HEAD")], body)
            return
        if path == "/ctx/health":
            state = "degraded" if self.store.is_degraded else "ok"
            told = {"summaries": asdict(self.summaries)} if self.summaries is not None else {}
            body = orjson.dumps({"status": state, "store": state, "version": self.version, **told})
            await respond.full(200, JSON_HEADERS, body)
        elif path == "/ctx/ready":
            body = orjson.dumps({"ready": self.is_ready})
            await respond.full(200 if self.is_ready else 503, JSON_HEADERS, body)
        else:
            await respond.full(404, JSON_HEADERS, api_error(f"there is no {path}", code="not_found"))
