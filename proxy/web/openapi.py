"""What the paths under /ctx/ take and answer, as an OpenAPI document: for programs, and for those who test them."""

from __future__ import annotations

from typing import Any, get_args

from proxy.audit.exporting import Format
from proxy.audit.tables import KINDS
from proxy.core.filters import OUTCOMES

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "code"],
            "properties": {"message": {"type": "string"}, "code": {"type": ["string", "null"]}},
        }
    },
}


def _json(schema: dict[str, Any], description: str = "as described") -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


MOST_TOKENS = 10**9
LINES = "^([0-9]{1,9}|[0-9]{1,9}-[0-9]{0,9}|-[0-9]{1,9})?$"
_TIME = [{"const": ""}, {"format": "date"}, {"format": "date-time"}]
_BAD = {"400": _json(_ERROR, "a number or a name that is none")}


def document(version: str) -> dict[str, Any]:
    """OpenAPI 3.1. Every path but health, readiness and the login answers 404 to whoever may not see it."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "undercliff", "version": version, "license": {"name": "Apache-2.0"}},
        "security": [{"admin": []}],
        "paths": {
            "/ctx/health": {"get": _open(_get("Whether it lives and the store takes what is written", _HEALTH))},
            "/ctx/ready": {"get": _open(_get("Whether it can serve", _READY, more={"503": _json(_READY)}))},
            "/ctx/metrics": {"get": _get("Figures for Prometheus", text="text/plain")},
            "/ctx/openapi.json": {"get": _get("This document", {"type": "object"})},
            "/ctx/": {"get": _open(_get("All conversations, or the login", text="text/html", asked=_FILTERS))},
            "/ctx/login": {"get": _open(_get("The login", text="text/html")), "post": _open(_LOGIN)},
            "/ctx/list": {
                "get": _get(
                    "The list alone; nothing when `v` is what was shown", text="text/html",
                    asked=[*_FILTERS, _query("v")], more={"204": {"description": "nothing has changed"}},
                )
            },
            "/ctx/c/{id}": {"get": _get("One conversation", text="text/html", asked=[_path("id"), _query("at")])},
            "/ctx/c/{id}/rows": {
                "get": _get("Some of its messages", text="text/html", asked=[_path("id"), _START], more=_BAD)
            },
            "/ctx/c/{id}/timeline.json": {"get": _get("Its calls, folds and limits", _TIMELINE, asked=[_path("id")])},
            "/ctx/c/{id}/item/{item}": {"get": _get("One message", text="text/html", asked=_ITEM)},
            "/ctx/c/{id}/item/{item}/raw": {
                "get": _get("Its original bytes", text="application/octet-stream", asked=_ITEM)
            },
            "/ctx/w/{id}": {"get": _get("What one request sent, and why", text="text/html", asked=[_path("id")])},
            "/ctx/expand/{item}": {
                "get": _get(
                    "An original, or a piece of it; a client's key sees what came with that key", text="text/plain",
                    asked=[_path("item"), _query("lines", pattern=LINES), _query("query"), _MOST],
                    more=_BAD,
                )
            },
            "/ctx/export": {"get": _EXPORT},
        },
        "components": {"securitySchemes": {"admin": {"type": "http", "scheme": "bearer"}}},
    }  # fmt: skip


def _get(
    summary: str,
    schema: dict[str, Any] | None = None,
    *,
    text: str = "",
    asked: list[dict[str, Any]] | None = None,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A GET that answers JSON of a schema, or text of a media type."""
    found = _json(schema) if schema is not None else {"description": "as described", "content": {text: {}}}
    responses = {
        "200": found,
        **(more or {}),
        "404": _json(_ERROR, "not there, or not yours to see"),
        "503": _json(_ERROR, "the store cannot be read"),
        **({"503": more["503"]} if more and "503" in more else {}),
    }
    return {"summary": summary, "parameters": asked or [], "responses": responses}


def _open(operation: dict[str, Any]) -> dict[str, Any]:
    return {**operation, "security": []}


def _query(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string", **schema}}


def _path(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


_HEALTH = {
    "type": "object",
    "required": ["status", "store", "version"],
    "properties": {"status": {"enum": ["ok", "degraded"]}, "store": {"enum": ["ok", "degraded"]}},
}
_READY = {"type": "object", "required": ["ready"], "properties": {"ready": {"type": "boolean"}}}
_TIMELINE = {
    "type": "object",
    "required": ["calls", "folds", "limits"],
    "properties": {
        "calls": {"type": "array", "items": {"type": "object"}},
        "folds": {"type": "array", "items": {"type": "integer"}},
        "limits": {"type": "object"},
    },
}
_FILTERS = [
    {"name": "id", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
    _query("q"),
    _query("tenant"),
    _query("model"),
    *(_query("since"), _query("until"), _query("outcome")),  # what is wrong with them is said on the page
]
_START = {"name": "start", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 10**9 - 1}}
_MOST = {"name": "max_tokens", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": MOST_TOKENS}}
_ITEM = [_path("id"), _path("item")]
_LOGIN = {
    "summary": "Exchange the admin key for a cookie",
    "requestBody": {
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}}
            }
        }
    },
    "responses": {
        "303": {"description": "in", "headers": {"set-cookie": {"schema": {"type": "string"}}}},
        "403": {"description": "not the key", "content": {"text/html": {}}},
        "404": _json(_ERROR, "no admin key is set, or the form is too long"),
    },
}
_EXPORT = _get(
    "Conversations in a format",
    text="application/x-ndjson",
    asked=[
        {"name": "format", "in": "query", "schema": {"enum": list(get_args(Format))}},
        {"name": "rows", "in": "query", "schema": {"enum": list(KINDS)}},
        *_FILTERS[:-3],
        *(_query("since", anyOf=_TIME), _query("until", anyOf=_TIME), _query("outcome", enum=["", *OUTCOMES])),
    ],
    more={"400": _json(_ERROR, "no such format, rows, time or outcome")},
)
_EXPORT["responses"]["200"]["content"] = {
    one: {} for one in ("application/x-ndjson", "text/csv", "text/html", "application/vnd.apache.parquet")
}
