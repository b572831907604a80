"""Errors inside a reply that began as a success: in every shape providers use, as one JSON document."""

from __future__ import annotations

from typing import Any

from proxy.wire import jsonbytes


def event_fault(name: bytes, data: bytes, document: Any) -> bytes:
    """The error that an event of a stream carries, as `{"error":...}` or as the flat body it came in; b"" if none."""
    if isinstance(document, dict):
        fault = body_fault(data, document)
        if fault:
            return fault
        if name == b"error":
            return data
        if _first_finish(document.get("choices")) == "error":
            return b'{"error":{"message":"the provider ended the stream with an error"}}'
        return b""
    if name == b"error":
        return jsonbytes.dumps({"error": {"message": data.decode(errors="replace")}})
    return b""


def body_fault(body: bytes, document: Any) -> bytes:
    """The same for a whole reply with a success status."""
    if isinstance(document, list) and document and isinstance(document[0], dict):
        return body_fault(body, document[0])
    if not isinstance(document, dict):
        return b""
    error = document.get("error")
    if error:
        return b'{"error":' + jsonbytes.dumps(error) + b"}"
    choices = document.get("choices")
    if choices:
        inner = choices[0].get("error") if isinstance(choices, list) and isinstance(choices[0], dict) else None
        return b'{"error":' + jsonbytes.dumps(inner) + b"}" if inner else b""
    is_flat = document.get("object") == "error" or ("choices" not in document and _has_message(document))
    return body if is_flat or _base_status(document.get("base_resp")) else b""


def _has_message(document: dict[str, Any]) -> bool:
    """A flat error body: `{"message": ...}` or `{"detail": ...}` and nothing of a reply."""
    if document.get("object") is not None or "usage" in document or "output" in document:
        return False
    return isinstance(document.get("message"), str) or "detail" in document


def _base_status(base: Any) -> bool:
    """MiniMax reports failure as `base_resp{status_code}` with status 200."""
    return isinstance(base, dict) and bool(base.get("status_code"))


def _first_finish(choices: Any) -> Any:
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0].get("finish_reason")
    return None
