"""Reads a stored element for people, whichever wire format it came in. Never fails: the worst case is its own bytes."""

from __future__ import annotations

from proxy.errors import NotUnderstoodError
from proxy.wire.base import WireFormat
from proxy.wire.chat import ChatFormat
from proxy.wire.responses import ResponsesFormat

_FORMATS: tuple[WireFormat, ...] = (ChatFormat(), ResponsesFormat())


def readable_text(raw: bytes) -> str:
    """The text of one list element: of a tool result exactly what the tool said, of the rest everything readable."""
    for format in _FORMATS:
        try:
            element = format.read_element(raw)
        except NotUnderstoodError:
            continue
        if element.texts:
            return "\n".join(element.texts)
        if element.text or element.kind != "opaque":
            return element.text
    return raw.decode("utf-8", "replace")
