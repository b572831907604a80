"""Error bodies of providers, read and rewritten. Shared by both wire formats."""

from __future__ import annotations

from typing import Any

import orjson

from proxy.wire.jsonbytes import loads

JSON_HEADERS = [(b"content-type", b"application/json")]
_MAX_DEPTH = 10  # of the error object inside what wraps it: a body may be nested as deep as it likes


def load(body: bytes) -> object:
    """The decoded error body; its text where it is not JSON. Never raises."""
    text = body.decode("utf-8", "replace")
    try:
        return loads_text(text)
    except ValueError:
        return text


def loads_text(text: str) -> object:
    """JSON inside a string, for error bodies that nest one in another. Raises ValueError."""
    value: object = loads(text)
    return value


def names_option(body: bytes, option: str) -> bool:
    """Does this error complain about a request option by name?"""
    return option.encode() in body


def error_fields(value: object, depth: int = 0) -> dict[str, Any]:
    """`type`, `param` and `code` of an error object wherever it stands: nested, flat or in an array."""
    if depth > _MAX_DEPTH:
        return {}
    if isinstance(value, list):
        return next((found for found in (error_fields(each, depth + 1) for each in value) if found), {})
    if not isinstance(value, dict):
        return {}
    for key in ("error", "detail", "response"):
        inner = value.get(key)
        if isinstance(inner, (dict, list)) and (found := error_fields(inner, depth + 1)):
            return found
    fields = {key: value[key] for key in ("type", "param", "code") if key in value}
    return fields if ("message" in value or "code" in fields) else {}


def too_large(value: object, message: str) -> bytes:
    """The provider's error with a message for people: its own type, param and code stay."""
    fields = error_fields(value)
    kind = fields.get("type")
    if kind in (None, "error", "response.failed"):
        kind = "invalid_request_error"
    return orjson.dumps(
        {
            "error": {
                "message": message,
                "type": kind,
                "param": fields.get("param"),
                "code": fields.get("code") or "context_length_exceeded",
            }
        }
    )


def error_code(body: bytes) -> str:
    """The provider's own code of an error that can only be told inside a stream."""
    code = error_fields(load(body)).get("code")
    return code if isinstance(code, str) and code else "upstream_error"


def api_error(message: str, *, code: str, kind: str = "undercliff_error") -> bytes:
    """An error of the proxy's own, in the shape that every SDK reads."""
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
