"""Reads the store for people: finds by prefix, gathers what a view shows, renders a window again. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Literal

from policies.model import Form
from proxy.core.records import (
    BranchRow,
    ConversationSummary,
    Entry,
    FoldRow,
    ItemRow,
    Manifest,
    MarkRow,
    StoredItem,
    SummaryCallRow,
)
from proxy.core.texts import clip
from proxy.errors import NotFoundError, StoreError
from proxy.marks import EXPANDED, IMPORTANCE
from proxy.store.base import Store
from proxy.wire.readable import readable_text

View = Literal["user", "model", "archive"]
_ALL = 1_000_000


@dataclass(frozen=True, slots=True)
class ItemLine:
    """One item of a view, with its text: in the model's view the text that the model last got for it."""

    seq: int
    id: str
    kind: str
    role: str
    text: str
    is_summarized: bool
    is_pinned: bool
    call_id: str
    source: str
    origin: str
    exchange: str
    created_at: str
    form: str = "full"


@dataclass(frozen=True, slots=True)
class BranchLine:
    id: str
    kind: str
    parent: str
    parent_kind: str
    model: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class FoldLine:
    """One compaction. `covered` originals in `parts` segments, `told` of them in a model's words.

    `cost`: dollars for the summaries written since the one before; None where no model was asked.
    """

    branch: str
    trigger: str
    figure: int
    tokens_before: int
    tokens_after: int
    summary: str
    created_at: str
    covered: int = 0
    parts: int = 0
    told: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class SummaryFigures:
    """What summaries of a conversation have cost, apart from its own calls."""

    asked: int = 0
    good: int = 0
    input: int = 0
    output: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Shown:
    """A conversation in one view. `branch` is empty in the user's view, which holds every branch."""

    conversation: ConversationSummary
    view: View
    branch: str
    branches: tuple[BranchLine, ...]
    items: tuple[ItemLine, ...]
    folds: tuple[FoldLine, ...]
    summaries: SummaryFigures = SummaryFigures()
    importance: Mapping[str, float] = field(default_factory=dict)  # of items: what an application said, and expanding


@dataclass(frozen=True, slots=True)
class EntryLine:
    index: int
    item: str
    form: str
    tokens: int
    reason: str
    score: float


@dataclass(frozen=True, slots=True)
class WindowShown:
    """A served window: what went out, in which form, and why. Billed figures are 0 without an outcome."""

    id: str
    exchange: str
    conversation: str
    branch: str
    model: str
    attempt: int
    policy: str
    reason: str
    tokens_in: int
    tokens_out: int
    first_change: int
    out_bytes: int
    out_hash: str
    created_at: str
    outcome: str
    status: int
    billed_input: int
    billed_cached: int
    billed_output: int
    cost: float | None
    entries: tuple[EntryLine, ...]


@dataclass(frozen=True, slots=True)
class ItemShown:
    """One original. `data` is its bytes as they came."""

    id: str
    conversation: str
    kind: str
    role: str
    call_id: str
    source: str
    created_at: str
    text: str
    data: bytes


# -- finding -----------------------------------------------------------------------------------


async def find_conversation(store: Store, prefix: str) -> ConversationSummary:
    """The conversation whose id is, or alone starts with, `prefix`."""
    known = await store.conversations(limit=_ALL)
    found = pick_by_prefix(
        [one.id for one in known], prefix, "conversation", hint="List them: undercliff conversations."
    )
    return next(one for one in known if one.id == found)


async def find_window(store: Store, id: str) -> Manifest:
    """By window or exchange id, by a prefix of a window's, or the last window of a conversation."""
    manifest = await store.window(id)
    if manifest is not None:
        return manifest
    known = await store.conversations(limit=_ALL)
    of_prefix = [one.id for one in known if id and one.id.startswith(id)]
    if len(of_prefix) == 1:
        windows = await store.windows(of_prefix[0])
        if not windows:
            raise NotFoundError(f"conversation {of_prefix[0]} has no window yet", hint="Its requests passed through.")
        return await _window(store, windows[-1])
    ids = [window for one in known for window in await store.windows(one.id)]
    hint = "Give the id from the x-undercliff-window header, or a conversation's id for its last window."
    return await _window(store, pick_by_prefix(ids, id, "window", hint=hint))


async def _window(store: Store, id: str) -> Manifest:
    manifest = await store.window(id)
    if manifest is None:
        raise NotFoundError(f"window {id} is listed but not stored", hint="Another process may have just written it.")
    return manifest


def pick_by_prefix(ids: Sequence[str], prefix: str, noun: str, *, hint: str) -> str:
    """The one id that is `prefix` or starts with it. Raises `NotFoundError`."""
    if prefix in ids:
        return prefix
    found = [id for id in ids if prefix and id.startswith(prefix)]
    if not found:
        raise NotFoundError(f"there is no {noun} {prefix!r}", hint=hint)
    if len(found) > 1:
        raise NotFoundError(
            f"{prefix!r} is the start of {len(found)} {noun} ids",
            hint=f"Add a character: {', '.join(sorted(found)[:4])}.",
        )
    return found[0]


# -- gathering ---------------------------------------------------------------------------------


async def gather(store: Store, prefix: str, view: View, branch: str = "") -> Shown:
    """Everything that `undercliff show` prints."""
    conversation = await find_conversation(store, prefix)
    branches = await store.branches(conversation.id)
    chosen = ""
    if view == "user" and not branch:
        items = [item async for item in await store.transcript(conversation.id)]
    else:
        chosen = _choose_branch(branches, branch)
        if view == "user":
            items = [item async for item in await store.transcript(conversation.id, branch=chosen)]
        else:
            items = await store.view(chosen, summarized=view == "archive")
    reduced = await _reduced(store, branches, chosen) if view == "model" else {}
    folds = await store.folds(conversation.id)
    calls = await store.summary_calls(conversation.id)
    return Shown(
        conversation=conversation,
        view=view,
        branch=chosen,
        branches=tuple(map(_branch_line, branches)),
        items=tuple([await item_line(store, item, reduced.get(item.row.origin or item.row.id)) for item in items]),
        folds=tuple(line for line in _fold_lines(folds, calls) if not chosen or line.branch == chosen),
        summaries=SummaryFigures(
            asked=len(calls),
            good=sum(call.outcome == "ok" for call in calls),
            input=sum(call.input for call in calls),
            output=sum(call.output for call in calls),
            cost=sum(call.cost or 0.0 for call in calls),
        ),
        importance=_importance(await store.marks(conversation.id)),
    )


def _importance(marks: Sequence[MarkRow]) -> dict[str, float]:
    found: dict[str, float] = {}
    for mark in marks:
        if mark.name in (IMPORTANCE, EXPANDED):
            found[mark.item] = found.get(mark.item, 0.0) + float(mark.value)
    return found


def _fold_lines(folds: Sequence[FoldRow], calls: Sequence[SummaryCallRow]) -> list[FoldLine]:
    lines: list[FoldLine] = []
    since = ""
    for fold in folds:
        paid = [call.cost for call in calls if since < call.created_at <= fold.created_at and call.cost is not None]
        since = fold.created_at
        shared = {name: getattr(fold, name) for name in FoldLine.__slots__ if name != "cost"}
        lines.append(FoldLine(**shared, cost=sum(paid) if paid else None))
    return lines


def _choose_branch(branches: Sequence[BranchRow], prefix: str) -> str:
    """The branch asked for, else the newest one of the top-level agent."""
    if prefix:
        return pick_by_prefix(
            [row.id for row in branches], prefix, "branch", hint="List them: show CONVERSATION --json."
        )
    if not branches:
        raise NotFoundError("this conversation has no branch", hint="Only --view user can show it.")
    return max(branches, key=lambda row: (row.kind == "main", row.updated_at, row.id)).id


async def _reduced(store: Store, branches: Sequence[BranchRow], branch: str) -> dict[str, Entry]:
    """Entries of the branch's last window whose items did not go out in full."""
    window = next((row.window for row in branches if row.id == branch), "")
    manifest = await store.window(window) if window else None
    entries = manifest.entries if manifest is not None else ()
    return {entry.item: entry for entry in entries if entry.form != Form.FULL}


async def item_line(store: Store, item: StoredItem, entry: Entry | None = None) -> ItemLine:
    """One line, with the text as `entry` sent it, else the original's."""
    row = item.row
    data = (item.data if entry is None else b"") or await store.body(row.body if entry is None else entry.body) or b""
    return ItemLine(
        seq=item.seq,
        id=row.id,
        kind=row.kind,
        role=row.role,
        text=readable_text(data) if data else row.text,
        is_summarized=item.is_summarized,
        is_pinned=row.is_pinned,
        call_id=row.call_id,
        source=row.source,
        origin=row.origin,
        exchange=row.exchange,
        created_at=row.created_at,
        form="full" if entry is None else Form(entry.form).name.lower(),
    )


def show_window(manifest: Manifest) -> WindowShown:
    """A manifest as `undercliff window` prints it."""
    window, exchange, outcome = manifest.window, manifest.exchange, manifest.outcome
    return WindowShown(
        id=window.id,
        exchange=window.exchange,
        conversation=exchange.conversation if exchange else "",
        branch=window.branch,
        model=exchange.model if exchange else "",
        attempt=window.attempt,
        policy=window.policy,
        reason=window.reason,
        tokens_in=window.tokens_in,
        tokens_out=window.tokens_out,
        first_change=window.first_change,
        out_bytes=window.out_bytes,
        out_hash=window.out_hash,
        created_at=window.created_at,
        outcome=outcome.outcome if outcome else "",
        status=outcome.status if outcome else 0,
        billed_input=outcome.input if outcome else 0,
        billed_cached=outcome.cached if outcome else 0,
        billed_output=outcome.output if outcome else 0,
        cost=outcome.cost if outcome else None,
        entries=tuple(
            EntryLine(index, entry.item, Form(entry.form).name.lower(), entry.tokens, entry.reason, entry.score)
            for index, entry in enumerate(manifest.entries)
        ),
    )


async def render_window(store: Store, manifest: Manifest) -> bytes:
    """The exact bytes that went out. Raises `StoreError` if they cannot be had, or are not the same any more."""
    window = manifest.window
    parts = [await _body(store, window.prefix)]
    for index, entry in enumerate(manifest.entries):
        if index:
            parts.append(window.gaps[index - 1] if window.gaps else window.gap)
        parts.append(await _body(store, entry.body))
    parts.append(await _body(store, window.suffix))
    rendered = b"".join(parts)
    if sha256(rendered).hexdigest() != window.out_hash:
        raise StoreError(
            f"window {window.id} does not render to the bytes that were sent",
            hint="undercliff verify tells whether the file was changed, or words were redacted at capture.",
        )
    return rendered


async def _body(store: Store, hash: bytes) -> bytes:
    data = await store.body(hash)
    if data is None:
        raise StoreError(f"the store lacks the body {hash.hex()}", hint="Check the database file.")
    return data


async def fetch_item(store: Store, item: str) -> ItemShown:
    """The original behind an id, whole."""
    rows = await store.find_item(item)
    if not rows:
        raise NotFoundError(
            f"there is no item {clip(repr(item), 80)}", hint="Ids stand in the stub's text and in undercliff show."
        )
    row: ItemRow = rows[0]
    data = await _body(store, row.body)
    return ItemShown(
        id=row.id,
        conversation=row.conversation,
        kind=row.kind,
        role=row.role,
        call_id=row.call_id,
        source=row.source,
        created_at=row.created_at,
        text=readable_text(data),
        data=data,
    )


def _branch_line(row: BranchRow) -> BranchLine:
    """A line with the fields that it shares with a stored row."""
    return BranchLine(**{entry.name: getattr(row, entry.name) for entry in fields(BranchLine)})
