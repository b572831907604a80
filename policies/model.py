"""What a policy reads and what it answers: frozen values, no behaviour beyond derived figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Literal

Kind = Literal["system", "user", "assistant", "tool_result", "reasoning", "opaque"]
PressureKind = Literal["threshold", "guard", "overflow", "budget"]
ExcerptKind = Literal["", "delta", "lines", "shape", "outline"]
"""What stands for an item in `Form.EXCERPT`. A delta is lossless: what it leaves out is in full in `bases`."""

NOT_OFFERED = -1
"""The cost of a form that an item does not have."""


class Form(IntEnum):
    """How an item stands in a window, from nothing to everything. In a sticky window it only moves down."""

    ABSENT = 0
    FOLDED = 1  # represented by the window's one digest item
    STUB = 2
    EXCERPT = 3
    SUMMARY = 4
    FULL = 5


@dataclass(frozen=True, slots=True)
class Candidate:
    """One item of the request, as a policy sees it.

    Guarantees: `index` counts up by one through a situation; members of one `group` are
    adjacent; `costs[form]` is tokens, or `NOT_OFFERED`; `costs[Form.FULL]` is always offered.
    """

    id: str
    index: int
    group: int
    call: int  # ordinal of the assistant turn it belongs to (its own, or the one before it)
    kind: Kind
    costs: tuple[int, int, int, int, int, int]
    is_pinned: bool = False
    is_seen: bool = False  # the model has had it in full in one successful request
    is_failed: bool = False  # a tool result that reports a failure
    tool: str = ""  # name of the tool that produced a tool_result
    size_chars: int = 0
    text: str = ""  # readable text, for scoring and ageing
    source: str = ""  # the call's key argument: a path, a query, an id
    importance: float = 0.0
    excerpt: ExcerptKind = ""  # what Form.EXCERPT would be, "" where it is not offered
    bases: tuple[str, ...] = ()  # ids of the items that a delta refers to: they leave only together with it
    is_stale: bool = False  # a file read whose file was read again with other content, or edited after
    cites: tuple[str, ...] = ()  # ids of earlier items that this one draws on

    @property
    def tokens(self) -> int:
        """Tokens in full."""
        return self.costs[Form.FULL]


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens that a window may take. `ceiling` is the cliff or the context window, whichever binds."""

    ceiling: int
    margin: int = 0
    tools: int = 0
    reply: int = 0

    @property
    def room(self) -> int:
        """Tokens left for the items."""
        return max(0, self.ceiling - self.margin - self.tools - self.reply)


@dataclass(frozen=True, slots=True)
class Prices:
    """Price ratios to uncached input: a cached read, a cache write, an output token."""

    cached: float = 0.1
    write: float = 1.0
    output: float = 8.0


@dataclass(frozen=True, slots=True)
class Pressure:
    """Why the window must shrink now, and to how many tokens of items."""

    kind: PressureKind
    target: int
    figure: int = 0  # the billed or estimated figure that called for it


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What one look over the candidates and their held forms gives, whatever is asked. See `policies.survey`.

    `forms` are the held ones as far as the contract still allows them; `is_as_held`: it allows them all.
    `open`: the groups with something to fold, without users, pins and what the model has not seen.
    """

    candidates: tuple[Candidate, ...]
    held: Mapping[str, Form]
    at: Mapping[str, int]  # index by id
    groups: tuple[range, ...]
    forms: tuple[Form, ...]
    is_as_held: bool
    costs: tuple[int, ...]  # in those forms
    tokens: int  # their sum
    stuck: bytes  # one byte an item: 1 where it may not leave by the contract, wherever it stands
    open: tuple[range, ...]
    edge: int  # index where the last exchange begins
    held_end: int  # index behind the last item that is held


@dataclass(frozen=True, slots=True)
class Situation:
    """The whole question. `held` gives the forms of the previous window; an id not in it is new."""

    candidates: tuple[Candidate, ...]
    budget: Budget
    prices: Prices = field(default_factory=Prices)
    held: Mapping[str, Form] = field(default_factory=lambda: MappingProxyType({}))
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))  # `Choice.keep` then
    digest_tokens: int = 0  # cost of the standing digest, 0 without one
    pressure: Pressure | None = None
    is_cold: bool = False  # the provider's cache is gone: a rewrite is free
    free_from: int | None = None  # index from which the client itself broke the cache: a rewrite behind it is free
    is_new_turn: bool = False  # the newest item is a user message
    query: str = ""
    memory: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    survey: Survey | None = field(default=None, compare=False, repr=False)  # spares a look over all of it

    @property
    def cached_end(self) -> int:
        """Index from which nothing that was sent before is in the provider's cache any more."""
        if self.is_cold:
            return 0
        return len(self.candidates) if self.free_from is None else min(self.free_from, len(self.candidates))


@dataclass(frozen=True, slots=True)
class Choice:
    """The form chosen for one item, with the score it had and the reason in words.

    `keep`: segments of a folded or excerpted item that stay in the window word for word, as
    ascending indices into `policies.segments.split(candidate.text)`. Empty for an item whose form
    stays: what was kept of it then stays as well.
    """

    id: str
    form: Form
    reason: str
    score: float = 0.0
    keep: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The whole answer: one choice a candidate, in the same order; `memory` comes back next time.

    `is_carried`: every item keeps the form of the previous window and what is new stands in full, as
    `choices` say too. It spares work, and need not be said.
    """

    choices: Sequence[Choice]
    reason: str = ""  # why the window changed, empty when it only grew
    memory: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    is_carried: bool = False
