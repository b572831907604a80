"""What a wire format can do. JSON keys are known only inside this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.core.model import Conversation, Element, Frame, Reply


@dataclass(frozen=True, slots=True)
class Piece:
    """One element of the outgoing list. `source` is its index in the client's list, None if it is ours."""

    raw: bytes
    source: int | None


@dataclass(frozen=True, slots=True)
class FrameEdits:
    """Changes outside the list: ask for the usage chunk, lower the output allowance, have the provider compact."""

    ask_usage: bool = False
    max_output: int | None = None
    compact_threshold: int | None = None


class ReplyReader(Protocol):
    """Reads a copy of the reply as it passes.

    `feed` returns the bytes to pass on: the same bytes, but for events that only the proxy
    asked for. `has_content` turns true with the first content-bearing event (or body byte of a
    non-streamed reply that is no error). `error` is the first error object met, as JSON bytes.
    `is_done` turns true with the event that ends a stream: the terminal marker or terminal event.
    """

    has_content: bool
    is_done: bool
    error: bytes
    at_event_boundary: bool

    def feed(self, chunk: bytes) -> bytes: ...

    def finish(self) -> bytes:
        """Tell the end of the body; returns held-back bytes that still belong to the client."""
        ...

    def reply(self) -> Reply:
        """Everything read so far; callable at any time, also after a cut."""
        ...


class WireFormat(Protocol):
    """One request and reply grammar."""

    name: str

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Conversation:
        """Read a request body. Raises `NotUnderstoodError`."""
        ...

    def encode(self, conversation: Conversation, pieces: Sequence[Piece], edits: FrameEdits) -> bytes:
        """The outgoing body. With the client's own pieces and no edits: byte-identical to what came."""
        ...

    def frame(self, conversation: Conversation, pieces: Sequence[Piece], edits: FrameEdits) -> Frame:
        """The frame that `encode` joins the pieces into, with the gaps between them: for the manifest."""
        ...

    def render(self, element: Element, texts: Sequence[str | None]) -> bytes:
        """`element.raw` with each of `element.texts` replaced in place; None keeps that text's bytes."""
        ...

    def note(self, text: str) -> bytes:
        """A user message that carries `text`, as a list element."""
        ...

    def read_element(self, raw: bytes) -> Element:
        """Decode one list element from its bytes. Raises `NotUnderstoodError`."""
        ...

    def reader(self, *, is_stream: bool, strip_usage: bool) -> ReplyReader: ...

    def error_body(self, message: str, *, code: str, type: str = "undercliff_error") -> bytes:
        """An error object in this format's shape, for a non-streamed answer."""
        ...

    def error_event(self, message: str, *, code: str) -> bytes:
        """The same for the middle of a stream, as whole events."""
        ...
