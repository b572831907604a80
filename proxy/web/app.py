"""The routes under /ctx/ that show conversations. Only an administrator, or a private machine's owner, gets past it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, select_autoescape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from proxy.audit import tables
from proxy.audit.exporting import Format, stream, write_files
from proxy.audit.tables import form_name
from proxy.core.display import visible
from proxy.core.filters import OUTCOMES, Filters
from proxy.errors import NotFoundError, StoreError
from proxy.hindsight import compare_windows
from proxy.metrics import Meter
from proxy.store.archive import Archive
from proxy.store.base import Store
from proxy.store.source import Place
from proxy.web.access import COOKIE, SESSION_S, Access, is_foreign
from proxy.web.openapi import document
from proxy.web.pages import Pages
from proxy.wire.errors import JSON_HEADERS, api_error

SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_FOLDER = Path(__file__).parent
_WINDOW_ENTRIES = 2000
_CALLS_SHOWN = 50
_MOST_LOGIN_BYTES = 4096
LimitsOf = Callable[[str], dict[str, int | None]]


@dataclass(frozen=True, slots=True)
class WebParts:
    """What the page is built from. `limits_of` gives a model's window, cliff and thresholds."""

    store: Store
    file: Place | None
    access: Access
    meter: Meter
    limits_of: LimitsOf
    version: str


class Web:
    """The ASGI application for every path under /ctx/ but health and readiness."""

    def __init__(self, parts: WebParts) -> None:
        self._parts = parts
        self._pages = Pages(parts.store, parts.file)
        self._templates = Environment(
            loader=PackageLoader("proxy.web"), autoescape=select_autoescape(default=True), trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= {
            "visible": visible,
            "count": _count,
            "money": _money,
            "when": _when,
            "saved": _saved,
        }
        self._static = StaticFiles(directory=_FOLDER / "static")
        self._app = Starlette(
            routes=[
                Route("/ctx", self._to_list),
                Route("/ctx/", self._list),
                Route("/ctx/list", self._list_part),
                Route("/ctx/c/{id}", self._conversation),
                Route("/ctx/c/{id}/rows", self._rows),
                Route("/ctx/c/{id}/timeline.json", self._timeline),
                Route("/ctx/c/{id}/item/{item}", self._item),
                Route("/ctx/c/{id}/item/{item}/raw", self._raw),
                Route("/ctx/w/{id}", self._window),
                Route("/ctx/export", self._export),
                Route("/ctx/metrics", self._metrics),
                Route("/ctx/openapi.json", self._openapi),
            ],
            exception_handlers={404: _missing, NotFoundError: _missing, StoreError: _unwell},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path: str = scope["path"]
        if "\0" in path or is_foreign(request.method, path, request.headers):
            await _missing(request, None)(scope, receive, send)
            return
        if path.startswith("/ctx/static/") and request.method in ("GET", "HEAD"):
            await self._static_file(scope, receive, send)
            return
        peer = request.client.host if request.client else "local"
        access = self._parts.access
        if access.admin_key and path in ("/ctx/", "/ctx/login"):
            allowed = ("GET", "HEAD", "POST") if path == "/ctx/login" else ("GET", "HEAD")
            if request.method not in allowed:
                body = api_error(f"{request.method} is not allowed here", code="method_not_allowed")
                response = Response(body, 405, {"allow": ", ".join(allowed)}, media_type="application/json")
            elif request.method == "POST":
                response = await self._log_in(request)
            elif path == "/ctx/" and access.allows(request.headers, request.cookies, peer):
                await self._app(scope, receive, _secured(send))
                return
            else:
                response = self._page("login.html", request, is_wrong=False)
            await response(scope, receive, _secured(send))
            return
        if not access.allows(request.headers, request.cookies, peer):
            await _missing(request, None)(scope, receive, send)
            return
        await self._app(scope, receive, _secured(send))

    # -- who ------------------------------------------------------------------------------------
    async def _log_in(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_LOGIN_BYTES:
                return _missing(request, None)
        key = parse_qs(body.decode("utf-8", "replace")).get("key", [""])[0]
        if not self._parts.access.is_key(key):
            return self._page("login.html", request, status=403, is_wrong=True)
        response = RedirectResponse("/ctx/", status_code=303)
        response.set_cookie(
            COOKIE, self._parts.access.session(), max_age=SESSION_S, path="/ctx", httponly=True, samesite="strict",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return response

    async def _static_file(self, scope: Scope, receive: Receive, send: Send) -> None:
        inner = {**scope, "path": scope["path"].removeprefix("/ctx/static"), "root_path": ""}
        try:
            response = await self._static.get_response(inner["path"].lstrip("/"), inner)
        except HTTPException:
            response = _missing(Request(scope), None)
        await response(inner, receive, _secured(send))

    # -- the list -------------------------------------------------------------------------------
    async def _to_list(self, request: Request) -> Response:
        return RedirectResponse("/ctx/")

    async def _list(self, request: Request) -> Response:
        return await self._listed(request, "list.html")

    async def _list_part(self, request: Request) -> Response:
        """For live updates: nothing at all while nothing has changed."""
        return await self._listed(request, "list_part.html", known=request.query_params.get("v", ""))

    async def _listed(self, request: Request, template: str, known: str = "") -> Response:
        filters, problem = _filters(request)
        query = request.query_params.get("q", "").strip()
        shown = await self._pages.conversations(filters)
        if known == shown.mark:
            return Response(status_code=204)
        hits = await self._pages.hits(query) if query else []
        asked = {k: v for k, v in request.query_params.items() if k != "v"}
        teams = await self._pages.teams()
        return self._page(
            template, request, shown=shown, teams=teams, totals=shown.totals, hits=hits, query=query, filters=asked,
            outcomes=OUTCOMES, problem=problem, warning=self._parts.meter.warning,
        )  # fmt: skip

    # -- one conversation -----------------------------------------------------------------------
    async def _conversation(self, request: Request) -> Response:
        one = await self._pages.conversation(request.path_params["id"])
        if one is None:
            return _missing(request, None)
        chunks = await self._pages.chunks(one.id)
        at = request.query_params.get("at", "")
        place = await self._pages.place(one.id, at) if at else -1
        calls = await self._pages.timeline(one.id)
        return self._page(
            "conversation.html", request, one=one, chunks=chunks, count=sum(c.rows for c in chunks), place=place,
            calls=calls[-_CALLS_SHOWN:][::-1], call_count=len(calls), direct=_sum(calls, "cost_direct"),
            cost=_sum(calls, "cost"),
            breaks=sum(c["breaks"] for c in calls), warning=self._parts.meter.warning,
        )  # fmt: skip

    async def _rows(self, request: Request) -> Response:
        start = request.query_params.get("start", "0")
        if not (start.isascii() and start.isdigit() and len(start) < 10):
            body = api_error(f"start = {visible(start)[:40]!r} is no number below 10^9", code="bad_request")
            return Response(body, 400, media_type="application/json")
        rows = await self._pages.rows(request.path_params["id"], int(start))
        return self._page("rows.html", request, rows=rows, id=request.path_params["id"])

    async def _item(self, request: Request) -> Response:
        id = request.path_params["id"]
        row = await self._pages.row(id, request.path_params["item"])
        if row is None:
            return _missing(request, None)
        return self._page("rows.html", request, rows=[row], id=id, is_open=True)

    async def _raw(self, request: Request) -> Response:
        """The original's bytes, to be saved: never shown by the browser as what they say they are."""
        stored = await self._parts.store.items(request.path_params["id"], [request.path_params["item"]])
        data = await self._parts.store.body(stored[0].row.body) if stored else None
        if data is None:
            return _missing(request, None)
        headers = {"content-disposition": f'attachment; filename="{stored[0].row.id}.json"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def _timeline(self, request: Request) -> Response:
        one = await self._pages.conversation(request.path_params["id"])
        if one is None:
            return _missing(request, None)
        calls = await self._pages.timeline(one.id)
        folds = await self._parts.store.folds(one.id)
        begun = [call["created_at"] for call in calls]  # a fold is written when the call that brought it is answered
        marks = [max(sum(at <= fold.created_at for at in begun) - 1, 0) for fold in folds]
        return JSONResponse({"calls": calls, "folds": marks, "limits": self._parts.limits_of(one.model)})

    async def _window(self, request: Request) -> Response:
        manifest = await self._pages.window(request.path_params["id"])
        if manifest is None or manifest.exchange is None:
            return _missing(request, None)
        base = await self._pages.window(manifest.window.base) if manifest.window.base else None
        changes = compare_windows(base, manifest).changes[:_WINDOW_ENTRIES] if base is not None else ()
        return self._page(
            "window.html", request, window=manifest.window, exchange=manifest.exchange, outcome=manifest.outcome,
            entries=manifest.entries[:_WINDOW_ENTRIES], more=max(len(manifest.entries) - _WINDOW_ENTRIES, 0),
            form_name=form_name, why=_why, new={c.item for c in changes if c.change == "added"}, changes=changes,
        )  # fmt: skip

    # -- for programs ---------------------------------------------------------------------------
    async def _export(self, request: Request) -> Response:
        filters, problem = _filters(request)
        format = request.query_params.get("format", "jsonl")
        kind = request.query_params.get("rows", "items")
        if problem or format not in get_args(Format) or kind not in tables.KINDS or self._parts.file is None:
            body = api_error(problem or "there is no such format or rows, or no store", code="invalid_export")
            return Response(body, 400, media_type="application/json")
        name = f"undercliff.{'jsonl' if format == 'chat' else format}"
        pieces = _pieces(self._parts.file, format, filters, kind, self._parts.version)  # type: ignore[arg-type]
        types = {"csv": "text/csv", "html": "text/html", "parquet": "application/vnd.apache.parquet"}
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(pieces, media_type=types.get(format, "application/x-ndjson"), headers=headers)

    async def _metrics(self, request: Request) -> Response:
        meter = self._parts.meter
        return Response(meter.exposition(is_degraded=self._parts.store.is_degraded), media_type=meter.content_type)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(document(self._parts.version))

    def _page(self, template: str, request: Request, status: int = 200, **values: Any) -> Response:
        text = self._templates.get_template(template).render(version=self._parts.version, **values)
        return HTMLResponse(text.encode("utf-8", "replace"), status)


async def _pieces(
    file: Place, format: Format, filters: Filters, kind: tables.Kind, version: str
) -> AsyncIterator[bytes]:  # fmt: skip
    """An export from a thread, piece by piece: each read is short, and nothing waits in memory."""
    with Archive(file) as archive:
        if format == "parquet":
            with TemporaryDirectory() as folder:
                path = Path(folder) / "out.parquet"
                await asyncio.to_thread(write_files, archive, format, filters, path, version=version)
                path = path if kind == "items" else path.with_name(f"out.{kind}.parquet")
                with path.open("rb") as opened:
                    while piece := await asyncio.to_thread(opened.read, 1 << 20):
                        yield piece
            return
        pieces = stream(archive, format, filters, version=version, kind=kind)
        while batch := await asyncio.to_thread(_some, pieces):
            yield batch


def _some(pieces: Iterator[bytes]) -> bytes:
    batch, size = [], 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece)
        if size >= 1 << 18:
            break
    return b"".join(batch)


def _filters(request: Request) -> tuple[Filters, str]:
    """The filters of the address, and what is wrong with them."""
    asked = request.query_params
    ids = tuple(asked.getlist("id"))
    outcome = asked.get("outcome", "")
    if outcome and outcome not in OUTCOMES:
        return Filters(), f"there is no outcome {outcome}"
    try:
        filters = Filters(ids, asked.get("tenant", ""), asked.get("model", ""), asked.get("since", ""),
                          asked.get("until", ""), outcome)  # fmt: skip
        return filters.in_utc(), ""
    except ValueError:
        return Filters(), "a time is written like 2026-01-31 or 2026-01-31T14:05:00+01:00"


def _missing(request: Request, error: Exception | None) -> Response:
    """One answer for what is not there and for what is not theirs to see."""
    body = api_error(f"there is no {visible(request.url.path)}", code="not_found")
    return Response(body, 404, headers={name.decode(): value.decode() for name, value in JSON_HEADERS})


def _unwell(request: Request, error: Exception) -> Response:
    return Response(api_error(str(error), code="store_unavailable"), 503, media_type="application/json")


def _secured(send: Send) -> Send:
    async def secured(message: Any) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in SECURITY.items()]
            message = {**message, "headers": [*message.get("headers", []), *own]}
        await send(message)

    return secured


def _count(number: float) -> str:
    return f"{number:,.0f}"


def _money(dollars: float | None) -> str:
    return "no price" if dollars is None else f"${dollars:,.4f}"


def _sum(calls: Sequence[dict[str, Any]], name: str) -> float | None:
    """None when no call's price is known."""
    known = [call[name] for call in calls if call[name] is not None]
    return sum(known) if known else None


def _saved(direct: float | None, cost: float | None) -> float | None:
    return None if direct is None or cost is None else direct - cost


def _why(reason: str, form: str, is_new: bool) -> str:
    """The reason of an entry; of one in full that has none, what that means."""
    if reason or form != "full":
        return reason
    return "new: came since the window before" if is_new else "in full: nothing called for less"


def _when(stamp: str) -> str:
    return stamp[:19].replace("T", " ")
