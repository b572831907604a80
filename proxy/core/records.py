"""Rows that the store keeps, as frozen values. Ids are content hashes, so writing one twice is harmless."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

LinkType = Literal["summarizes", "derived_from", "replies_to", "cites"]
BranchKind = Literal["main", "side", "subagent"]


@dataclass(frozen=True, slots=True)
class BodyRow:
    """Original bytes by their 16-byte hash, once. `redacted` is the hash of `data` where it is not the original."""

    hash: bytes
    data: bytes
    redacted: bytes = b""


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One message of a conversation: in the display store for ever, and in the branch's working view.

    `id` is 12 base32 characters over conversation, content hash and occurrence; a row whose
    (conversation, id) is known is skipped in `messages`, and added to the branch's view if that
    view lacks it. `atoms` is the encoded canonical form (see core.identity), enough to rebuild a
    branch's path without parsing bodies.
    """

    id: str
    conversation: str
    branch: str
    kind: str
    role: str
    body: bytes  # BodyRow.hash
    atoms: bytes
    call_id: str = ""
    source: str = ""
    group: str = ""
    is_pinned: bool = False
    importance: float = 0.0
    text: str = ""  # what full-text search finds; "" keeps the row out of the index
    exchange: str = ""
    origin: str = ""  # a re-inserted row's original item
    created_at: str = ""  # ISO 8601 UTC with Z, microseconds


@dataclass(frozen=True, slots=True)
class ArrivalRow:
    """Items that a new branch begins with, in order, for its working view: most of them its parent's, known by id."""

    branch: str
    conversation: str
    items: tuple[str, ...]
    pinned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """One HTTP request as it arrived. Append-only."""

    id: str
    tenant: str
    conversation: str
    branch: str
    verdict: str  # new, continue, fork, retry, twin, side, epoch, bypass, passthrough
    method: str
    path: str
    model: str
    wire: str
    is_stream: bool
    request_bytes: int
    items: int
    created_at: str
    note: str = ""  # why a bypass


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """How an exchange ended. Append-only; one per exchange."""

    exchange: str
    status: int
    outcome: str  # ok, error, overflow, cancelled, interrupted, incomplete, bypass
    attempts: int
    finish: str = ""
    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    reasoning: int = 0
    is_estimated: bool = False
    cost: float | None = None
    cost_direct: float | None = None
    error: str = ""
    first_byte_ms: float = 0.0
    duration_ms: float = 0.0
    ended_at: str = ""
    breaks: int = 0
    reply_items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A branch's latest state; the newest write wins when its `version` is the higher one."""

    id: str
    tenant: str
    conversation: str
    kind: BranchKind
    version: int
    scope: str = ""
    parent: str = ""
    parent_kind: str = ""  # fork, twin, side, subagent, epoch, resumed_from
    epoch: int = 0
    head_hash: bytes = b""
    tools_hash: bytes = b""
    model: str = ""
    path: str = ""  # id of the PathRow that is its leaf path
    window: str = ""  # id of the last served WindowRow
    plan: str = ""  # id of its PlanRow
    state: bytes = b""  # encoded small state: last usage, outcome, policy memory, ephemeral spans
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class PathRow:
    """A branch's item ids in order, as a delta: the first `keep` of `base`, then `tail`."""

    id: str
    branch: str
    base: str
    keep: int
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a served window. `body` is the hash of the bytes that went out."""

    item: str
    form: int
    body: bytes
    tokens: int
    reason: str = ""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class WindowRow:
    """A served window with all that is needed to render it again, byte for byte.

    Entries are a delta like PathRow's. `prefix` and `suffix` are body hashes of the frame around
    the list, `gap` the bytes between elements (`gaps` where they are not all equal);
    `out_hash` is the SHA-256 of the whole outgoing body.
    """

    id: str
    exchange: str
    branch: str
    attempt: int
    base: str
    keep: int
    tail: tuple[Entry, ...]
    prefix: bytes
    suffix: bytes
    gap: bytes
    gaps: tuple[bytes, ...]
    out_hash: str
    out_bytes: int
    policy: str
    reason: str  # why the window changed; empty when it only grew
    tokens_in: int  # estimate of what the client sent
    tokens_out: int  # estimate of what went out
    first_change: int  # index of the first entry that differs from the base; -1 without a break
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """What a branch's window does beyond "as sent": reduced items and the fold. Immutable."""

    id: str
    branch: str
    data: bytes  # encoded core.window.Plan


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary with the originals it stands for. `key` hashes originals, prompt version and summarizer."""

    key: str
    conversation: str
    item: str  # the ItemRow that carries it
    body: bytes
    summarizer: str
    covers: tuple[str, ...]
    tokens: int
    cost: float | None = None
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class FoldRow:
    """Compaction in the working store: flag every open row of the view, insert these as fresh rows.

    `follows` is the summary of the branch's fold before it ("" for none). A fold that was computed from an
    older state than the store has is not carried out; None asks for no such check.
    """

    conversation: str
    branch: str
    trigger: str
    figure: int
    tokens_before: int
    tokens_after: int
    summary: str  # item id of the summary
    fresh: tuple[ItemRow, ...]  # pins and tail, each with `origin`, and the summary, in order
    created_at: str = ""
    follows: str | None = None
    covered: int = 0  # originals that the summary stands for
    parts: int = 0  # segments that it tells of
    told: int = 0  # how many of them in a model's words


@dataclass(frozen=True, slots=True)
class SummaryCallRow:
    """One attempt to have a summary written, good or not. Never part of the conversation's own usage."""

    id: str
    conversation: str
    branch: str
    key: str  # the SummaryRow that it was for
    summarizer: str
    model: str
    outcome: str  # ok, rejected, failed, late
    reason: str = ""
    input: int = 0
    cached: int = 0
    output: int = 0
    cost: float | None = None
    duration_ms: float = 0.0
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim on some work, for all processes: the first one holds it until `until` (seconds since 1970)."""

    name: str
    owner: str
    at: float
    until: float


@dataclass(frozen=True, slots=True)
class ClientKeyRow:
    """A team's key as it is kept: SHA-256 of it, never the key. It counts until `revoked_at` ("": for good)."""

    id: str
    team: str
    hash: bytes
    created_at: str
    revoked_at: str = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """What was billed since some moment: requests, input and output tokens, dollars, summaries among them."""

    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """One line of `undercliff usage`: what a tenant's calls came to, and what they would have cost directly."""

    tenant: str
    requests: int
    input: int
    cached: int
    output: int
    cost: float
    cost_direct: float


@dataclass(frozen=True, slots=True)
class LinkRow:
    conversation: str
    a: str
    b: str
    type: LinkType


@dataclass(frozen=True, slots=True)
class MarkRow:
    """What an application says of an item after it was written: `pin`, `importance`, …. The newest wins."""

    conversation: str
    item: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A receipt: content that leads to a branch. `key` is 16 bytes; `kind` one of node, call, text, response."""

    tenant: str
    kind: str
    key: bytes
    branch: str


@dataclass(frozen=True, slots=True)
class LearnedRow:
    """A fact about one upstream and model: a limit, a token ratio, a refused option. The newest wins."""

    upstream: str
    model: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that one step writes, in one transaction. A fold flags `items`; `replies` came after it."""

    bodies: tuple[BodyRow, ...] = ()
    items: tuple[ItemRow, ...] = ()
    replies: tuple[ItemRow, ...] = ()
    exchanges: tuple[ExchangeRow, ...] = ()
    outcomes: tuple[OutcomeRow, ...] = ()
    branches: tuple[BranchRow, ...] = ()
    paths: tuple[PathRow, ...] = ()
    windows: tuple[WindowRow, ...] = ()
    plans: tuple[PlanRow, ...] = ()
    summaries: tuple[SummaryRow, ...] = ()
    folds: tuple[FoldRow, ...] = ()
    summary_calls: tuple[SummaryCallRow, ...] = ()
    claims: tuple[ClaimRow, ...] = ()
    links: tuple[LinkRow, ...] = ()
    marks: tuple[MarkRow, ...] = ()
    keys: tuple[KeyRow, ...] = ()
    learned: tuple[LearnedRow, ...] = ()
    client_keys: tuple[ClientKeyRow, ...] = ()
    arrivals: tuple[ArrivalRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """One line of `undercliff conversations`."""

    id: str
    tenant: str
    model: str
    first_text: str
    branches: int
    exchanges: int
    items: int
    input: int
    cached: int
    output: int
    cost: float
    saved_tokens: int
    folds: int
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as read back, with its sequence number and flag."""

    seq: int
    row: ItemRow
    is_summarized: bool = False
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A served window, fully resolved: all entries, the frame and the exchange's outcome."""

    window: WindowRow
    entries: tuple[Entry, ...]
    exchange: ExchangeRow | None = None
    outcome: OutcomeRow | None = None
    extra: dict[str, str] = field(default_factory=dict)
