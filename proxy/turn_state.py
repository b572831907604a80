"""The state of one request on its way, from its placement to its last row. Values only: `turn` makes and moves them."""

from __future__ import annotations

from dataclasses import dataclass, field

from proxy.core.branches import Placement
from proxy.core.caching import client_break
from proxy.core.identity import Probe
from proxy.core.model import Conversation
from proxy.core.receipts import Key
from proxy.core.records import BodyRow, ItemRow, KeyRow, LinkRow
from proxy.core.window import EMPTY, applicable, slots
from proxy.counting import Count
from proxy.folding import Folded
from proxy.live import Live
from proxy.marks import NOTHING, Said
from proxy.measuring import Measured
from proxy.models import ModelLimits
from proxy.recording import Served
from proxy.windows import Decision, Prior, Rendered
from proxy.wire.base import FrameEdits, WireFormat


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A list with its measures."""

    conversation: Conversation
    measured: Measured


@dataclass(frozen=True, slots=True, eq=False)
class NewRows:
    """The rows of what is new in a list: of the items at these indices, of the receipts, of links."""

    fresh: list[int]
    items: tuple[ItemRow, ...]
    bodies: tuple[BodyRow, ...]
    links: tuple[LinkRow, ...]
    keys: tuple[KeyRow, ...]


@dataclass(slots=True)
class Turn:
    """The state of one request on its way. `base` is the branch's last good window."""

    exchange: str
    fmt: WireFormat
    conversation: Conversation
    probe: Probe
    placement: Placement
    live: Live
    fresh_keys: tuple[Key, ...]
    measured: Measured
    limits: ModelLimits
    decision: Decision
    rendered: Rendered
    base: Served
    tools_tokens: int = 0
    edits: FrameEdits = field(default_factory=FrameEdits)
    window: str = ""
    attempt: int = 0
    began_under: str = ""  # the branch's plan when this turn was placed
    is_managed: bool = True  # False: passed as it came (side calls, suspended branches)
    prior: Prior | None = None  # what the branch's last request left
    left: Prior = field(init=False)  # what this one leaves
    rows: NewRows | None = None  # of what is new
    original: Conversation | None = None  # what came, where `conversation` has also what stands behind it
    asked: Asked | None = None  # the client's own list, where `conversation` has also what was hidden from it
    before: Served | None = None  # the branch's window before this reply, in its later rounds
    deferred: Folded | None = None  # a fold that waits for its summaries
    count: Count | None = None  # asks the provider how large a body is
    tool: str = ""  # calls of this tool are ours
    tool_tokens: int = 0  # of its definition, where it is in the request
    said: Said = NOTHING  # what an application said of the items

    @property
    def estimate(self) -> int:
        """Tokens of the outgoing request by our own counting, tools included."""
        return self.decision.tokens + self.tools_tokens + self.tool_tokens

    @property
    def own(self) -> Asked:
        """The client's own list."""
        return self.asked or Asked(self.conversation, self.measured)

    @property
    def cached_by(self) -> tuple[str, bytes]:
        """What a provider's prompt cache is of, beside its text."""
        return self.probe.model, self.probe.tools_hash

    @property
    def free_from(self) -> int | None:
        """Index from which the client itself broke the cache of the window before, None where it did not."""
        prior, base, ids = self.prior, self.base, self.measured.ids
        if base is not self.live.served or self.conversation.is_opaque:
            return None
        if prior is not None and prior.rendered is not None and prior.rendered.entries is base.entries:
            before = prior.measured.ids
            if ids[: len(before)] == before:
                return None
        return client_break(base.entries, applicable(self.live.plan, ids), ids, self.live.seen, self.live.state.absent)

    @property
    def is_as_sent(self) -> bool:
        """Was nothing of it ours to choose? Then without us it would have cost the same."""
        return self.conversation.is_opaque or (self.original is not None and not self.rendered.is_rewritten)

    @property
    def is_taken_over(self) -> bool:
        """Does a list of its own go out in place of a previous response's name?"""
        return self.original is not None and not self.is_as_sent

    @property
    def saved(self) -> int:
        return max(0, self.own.measured.tokens - self.decision.tokens)


def whole(measured: Measured) -> Decision:
    """Everything in full."""
    return Decision(EMPTY, tuple(slots(EMPTY, measured.ids)), "", {}, measured.tokens)
