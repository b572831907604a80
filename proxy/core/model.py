"""The values that pass between the layers. Frozen; no JSON shape and no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

AtomKind = Literal["sys", "user", "asst", "call", "result", "reasoning", "other"]
ItemKind = Literal["message", "tool_call", "tool_result", "reasoning", "summary", "opaque"]
Wire = Literal["chat", "responses"]
ToolRoom = Literal["open", "kept", "closed"]
"""May one more tool stand in a request: yes; only if it stood there before (nothing can call it); no."""


@dataclass(frozen=True, slots=True)
class Atom:
    """The canonical unit of identity: equal for both wire formats and for every client's re-encoding.

    `hash` is 16 bytes over kind and canonical content (never over ids). `anchor` is the call id
    reduced to [A-Za-z0-9]. A `weak` atom (reasoning, assistant text beside calls) stays out of
    the chain: its absence is not a difference. `text` is canonical text, for receipts.
    """

    kind: AtomKind
    hash: bytes
    anchor: str = ""
    is_weak: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call that an element makes. `arguments` is the text as sent."""

    id: str
    name: str
    arguments: str
    alias: str = ""  # another id that a result may name it by


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Element:
    """One element of the client's list, exactly as it came, with what was read from it.

    Depends on `raw` alone, so it can be cached by it. `texts` are the maskable texts in order
    (only of tool results); `text` is everything readable, for search, stubs and digests.
    """

    raw: bytes
    kind: ItemKind
    role: str
    text: str
    atoms: tuple[Atom, ...]
    texts: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    answers: str | None = None  # the call id that this result answers
    is_failed: bool = False
    flat_tokens: int = 0  # images, audio and files: counted flat, never as text
    hash: bytes = b""  # 16 bytes over the strong atoms: equal content, equal hash
    body_hash: bytes = b""  # 16 bytes over `raw`


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The request body around its list: prefix + elements joined by gaps + suffix gives the body."""

    prefix: bytes
    gaps: tuple[bytes, ...]  # between neighbours, one fewer than the elements
    suffix: bytes


@dataclass(frozen=True, slots=True)
class Hints:
    """What headers, URL and body say about identity. A scope, never an identity by itself."""

    forced: str = ""  # /s/<id>/ or x-ctx-conversation
    scope: str = ""  # thread-level header value, prefixed by its kind
    parent_scope: str = ""  # the thread that started this one
    label: str = ""  # "subagent" | "compaction" | "title" | ... when the client says so
    cache_key: str = ""  # prompt_cache_key, user...: tie-breakers only
    retry_count: int = 0
    previous_response: str = ""
    kept_in: str = ""  # a conversation that the provider keeps: what it has goes before this list
    is_opaque: bool = False  # its fields refer to state at the provider, or ask for some

    @property
    def behind(self) -> str:
        """The name of what stands behind the list at the provider."""
        return self.previous_response or self.kept_in


@dataclass(frozen=True, slots=True, eq=False)
class Conversation:
    """The decoded content of one request.

    `head` is how many leading elements are system or developer messages: they are outside the
    body chain. `instructions` is the text that a wire format carries outside the list.
    """

    wire: Wire
    model: str
    is_stream: bool
    elements: tuple[Element, ...]
    head: int
    frame: Frame
    instructions: str = ""
    tools: bytes = b""  # raw JSON of the tool definitions
    has_tools: bool = False
    max_output: int | None = None
    wants_usage: bool = True  # the client asked for the usage chunk, or it comes anyway
    choices: int = 1
    tool_room: ToolRoom = "closed"
    tool_names: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()  # ids of items that the client does not know of
    hints: Hints = field(default_factory=Hints)
    is_opaque: bool = False  # must pass untouched (server-side state, compaction triggers)
    is_partial: bool = False  # the provider adds items that are not in this list
    is_stored: bool = True  # later requests may refer to the reply by its id
    is_kept: bool = False  # its history is at the provider, whom nobody asked to keep it small


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the provider billed. `input` includes cached reads and cache writes."""

    input: int
    output: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0
    cost: float | None = None  # what the provider says it charged
    is_estimated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What came back, read from a copy of the bytes. `elements` are in the request's own wire format."""

    elements: tuple[Element, ...] = ()
    text: str = ""
    finish: str = ""
    usage: Usage | None = None
    response_id: str = ""
    is_complete: bool = False  # a finish reason or terminal event was seen
    error: bytes = b""  # the error object seen inside the reply, as JSON
    kept_as: str = ""  # the provider's name for all of it, where `response_id` names only its first round
    item_ids: tuple[str, ...] = ()  # the provider's names for the elements, by which a client may refer to them
