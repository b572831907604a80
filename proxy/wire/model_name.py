"""The models that a request's body names, read without reading the rest."""

from __future__ import annotations

from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes


def models_of(body: bytes) -> list[str] | None:
    """Every `model` of a JSON object: parsers differ in which of two they take. None where one is no text."""
    try:
        members, _ = jsonbytes.walk_object(body, jsonbytes.skip_blanks(body, 0))
        found = [jsonbytes.loads(body[member.start : member.end]) for member in members if member.key == "model"]
    except (NotUnderstoodError, ValueError):
        return None
    return found if all(isinstance(name, str) for name in found) else None
