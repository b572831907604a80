"""What a wire format can do. JSON keys are known only inside this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from proxy.core.model import Conversation, Element, Frame, Reply


@dataclass(frozen=True, slots=True)
class Piece:
    """One element of the outgoing list. `source` is its index in the client's list, None if it is ours."""

    raw: bytes
    source: int | None


RAW, SOURCE = attrgetter("raw"), attrgetter("source")
"""For going over many pieces."""


@dataclass(frozen=True, slots=True)
class FrameEdits:
    """Changes outside the list: ask for the usage chunk, lower the output allowance, have the provider compact."""

    ask_usage: bool = False
    max_output: int | None = None
    compact_threshold: int | None = None
    tool: bytes = b""  # one more definition, behind the client's tools
    forbid_calls: bool = False  # no tool may be called this time


class ReplyReader(Protocol):
    """Reads a copy of the reply as it passes.

    `feed` returns the bytes to pass on: the same bytes, but for events that only the proxy
    asked for. `has_content` turns true with the first content-bearing event (or body byte of a
    non-streamed reply that is no error). `error` is the first error object met, as JSON bytes.
    `is_done` turns true with the event that ends a stream: the terminal marker or terminal event.
    """

    @property
    def has_content(self) -> bool: ...

    @property
    def is_done(self) -> bool: ...

    @property
    def error(self) -> bytes: ...

    @property
    def at_event_boundary(self) -> bool: ...

    def feed(self, chunk: bytes) -> bytes: ...

    def finish(self) -> bytes:
        """Tell the end of the body; returns held-back bytes that still belong to the client."""
        ...

    def reply(self) -> Reply:
        """Everything read so far; callable at any time, also after a cut."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class HiddenCall:
    """A call that the client must not see. `before` are the ids of the client's own calls in front of it."""

    id: str
    arguments: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One upstream call of a reply, hidden calls and all.

    `elements` are the reply as it really was; `is_visible` says of each whether the client sees
    it as it is. `calls` are the hidden ones, empty when the client gets the reply as it came.
    """

    elements: tuple[Element, ...] = ()
    is_visible: tuple[bool, ...] = ()
    calls: tuple[HiddenCall, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """How far the client's stream has come: an error behind it goes on from there."""

    sequence: int = 0  # of the next event
    response_id: str = ""


NOWHERE = StreamPlace()


class ExpandReader(ReplyReader, Protocol):
    """Reads the rounds of one reply and gives the client one reply without the hidden calls.

    `wants_more` turns true when a round ended with hidden calls alone: the next one continues it,
    after `next_round`. `reply` is what the client sees; its usage is that of the last round.
    """

    @property
    def wants_more(self) -> bool: ...

    @property
    def place(self) -> StreamPlace: ...

    def round(self) -> Round:
        """What the round that just ended said."""
        ...

    def next_round(self, *, is_last: bool) -> None:
        """Another upstream call answers; what it says continues the client's reply. After the last one it ends."""
        ...

    def restart(self) -> None:
        """This round is asked for once more; the client has got nothing of it."""
        ...


class WireFormat(Protocol):
    """One request and reply grammar."""

    name: str

    def is_quick(self, body: bytes) -> bool:
        """May `decode` run on the event loop? Safe to call `decode` from any thread else."""
        ...

    def decode(self, body: bytes, headers: Mapping[str, str]) -> Conversation:
        """Read a request body. Raises `NotUnderstoodError`."""
        ...

    def encode(
        self, conversation: Conversation, pieces: Sequence[Piece], edits: FrameEdits, frame: Frame | None = None
    ) -> bytes:
        """The outgoing body. With the client's own pieces and no edits: byte-identical to what came.

        `frame` spares making it again: what `frame` returned for the same.
        """
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

    def expanding(self, name: str, *, is_stream: bool, strip_usage: bool) -> ExpandReader:
        """A reader that keeps the calls of tool `name` from the client, over several rounds."""
        ...

    def tool(self, name: str) -> bytes:
        """The definition of the tool that returns originals."""
        ...

    def result(self, call_id: str, text: str) -> bytes:
        """A tool result as a list element."""
        ...

    def error_body(self, message: str, *, code: str, type: str = "undercliff_error") -> bytes:
        """An error object in this format's shape, for a non-streamed answer."""
        ...

    def error_event(self, message: str, *, code: str, place: StreamPlace = NOWHERE) -> bytes:
        """The same for the middle of a stream, as whole events."""
        ...
