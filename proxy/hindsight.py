"""Looks back at one moment of a conversation: a view at a turn, two windows compared, what a window lacked.

Reads the store only. A turn is an exchange: its number in the conversation, counted from 1, or an id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from policies.model import Form
from proxy.core.records import Entry, ExchangeRow, Manifest, StoredItem
from proxy.errors import NotFoundError
from proxy.store.base import Store
from proxy.views import ItemLine, Shown, View, gather, item_line
from proxy.wire.readable import readable_text

Change = Literal["added", "removed", "form", "spelling"]


@dataclass(frozen=True, slots=True)
class ChangedEntry:
    """One item that two windows do not have alike. `why` is the policy's own word."""

    item: str
    change: Change
    before: str
    after: str
    tokens: int  # more in the second window, or fewer
    why: str


@dataclass(frozen=True, slots=True)
class WindowsCompared:
    first: str
    second: str
    reason: str  # why the second one's plan changed; empty when it only grew
    same_prefix: int  # so many entries at the front are byte for byte the same
    tokens: int
    changes: tuple[ChangedEntry, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """An item whose original holds the text, and how it stood in the window.

    `served` is a form, "folded into ID", "not there yet", or "absent"; `still_holds`: what went out has the text.
    """

    item: str
    kind: str
    role: str
    created_at: str
    served: str
    reason: str
    still_holds: bool


# -- a view at a turn -----------------------------------------------------------------------------
async def gather_at(store: Store, prefix: str, view: View, turn: str) -> Shown:
    """What `show` would have printed when that exchange was sent."""
    now = await gather(store, prefix, "user")
    exchange, so_far = await _turn(store, now.conversation.id, turn)
    items = [item async for item in await store.transcript(now.conversation.id)]
    known = [item for item in items if item.row.exchange in so_far]
    if view == "user":
        lines = [await item_line(store, item) for item in known]
        return replace(now, items=tuple(lines), folds=())
    manifest = await store.window(exchange.id)
    if manifest is None:
        raise NotFoundError(f"exchange {exchange.id} had no window", hint="It was passed as it came.")
    sent = {entry.item for entry in manifest.entries}
    if view == "archive":
        rest = [item for item in known if item.row.id not in sent and item.row.id not in _replied(manifest)]
        lines = [replace(await item_line(store, item), is_summarized=True) for item in rest]
    else:
        by_id = {item.row.id: item for item in items}
        lines = [await _sent_line(store, entry, by_id.get(entry.item), manifest) for entry in manifest.entries]
    return replace(now, view=view, branch=exchange.branch, items=tuple(lines), folds=())


def _replied(manifest: Manifest) -> tuple[str, ...]:
    return manifest.outcome.reply_items if manifest.outcome is not None else ()


async def _turn(store: Store, conversation: str, turn: str) -> tuple[ExchangeRow, frozenset[str]]:
    """The exchange that is meant, and the ids of all up to it."""
    exchanges = [row for row, _ in await store.exchanges(conversation)]
    place = int(turn) - 1 if turn.isdigit() and len(turn) < 7 else None
    if place is None:
        manifest = await store.window(turn)
        id = manifest.window.exchange if manifest is not None else turn
        found = [i for i, row in enumerate(exchanges) if id and row.id.startswith(id)]
        place = found[0] if len(found) == 1 else -1
    if not 0 <= place < len(exchanges):
        raise NotFoundError(
            f"conversation {conversation} has no turn {turn!r}",
            hint=f"Give a number from 1 to {len(exchanges)}, or an exchange's or window's id.",
        )
    return exchanges[place], frozenset(row.id for row in exchanges[: place + 1])


async def _sent_line(store: Store, entry: Entry, item: StoredItem | None, manifest: Manifest) -> ItemLine:
    if item is not None:
        return await item_line(store, item, entry)
    data = await store.body(entry.body) or b""
    return ItemLine(
        seq=0, id=entry.item, kind="summary", role="user", text=readable_text(data), is_summarized=False,
        is_pinned=False, call_id="", source="", origin="", exchange=manifest.window.exchange,
        created_at=manifest.window.created_at, form=Form(entry.form).name.lower(),
    )  # fmt: skip


# -- two windows ----------------------------------------------------------------------------------
def compare_windows(first: Manifest, second: Manifest) -> WindowsCompared:
    """What changed from one to the other, item by item, and why."""
    before = {entry.item: entry for entry in first.entries}
    after = {entry.item: entry for entry in second.entries}
    changes = []
    for entry in second.entries:
        old = before.get(entry.item)
        if old is None:
            changes.append(_changed(entry, "added", "", _form(entry), entry.tokens, entry.reason))
        elif old.form != entry.form:
            why = entry.reason or second.window.reason or "sent in full again"
            changes.append(_changed(entry, "form", _form(old), _form(entry), entry.tokens - old.tokens, why))
        elif old.body != entry.body:
            why = entry.reason or "the same item, in other bytes"
            changes.append(_changed(entry, "spelling", _form(old), _form(entry), entry.tokens - old.tokens, why))
    why_gone = second.window.reason or "the client's list does not hold it any more"
    changes += [
        _changed(entry, "removed", _form(entry), "", -entry.tokens, why_gone)
        for entry in first.entries
        if entry.item not in after
    ]
    pairs = zip(first.entries, second.entries, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if (a.item, a.body) != (b.item, b.body)), None)
    return WindowsCompared(
        first=first.window.id,
        second=second.window.id,
        reason=second.window.reason,
        same_prefix=min(len(first.entries), len(second.entries)) if same is None else same,
        tokens=second.window.tokens_out - first.window.tokens_out,
        changes=tuple(changes),
    )


def _changed(entry: Entry, change: Change, before: str, after: str, tokens: int, why: str) -> ChangedEntry:
    return ChangedEntry(entry.item, change, before, after, tokens, why)


def _form(entry: Entry) -> str:
    return Form(entry.form).name.lower()


# -- what was missing -----------------------------------------------------------------------------
async def find_holders(store: Store, manifest: Manifest, text: str) -> list[Holder]:
    """Every item of the conversation whose original holds `text`, letter by letter but for case."""
    wanted = text.casefold()
    exchange = manifest.exchange
    if not wanted or exchange is None:
        raise NotFoundError("there is nothing to look for", hint="Give a window and a text.")
    so_far = set()
    for row, _ in await store.exchanges(exchange.conversation):
        so_far.add(row.id)
        if row.id == exchange.id:
            break
    sent = {entry.item: entry for entry in manifest.entries}
    folds = [(entry, await store.coverage(exchange.conversation, entry.item)) for entry in manifest.entries
             if entry.form == Form.FOLDED]  # fmt: skip
    covered = {item: entry for entry, items in folds for item in items}
    replies = _replied(manifest)
    holders = []
    async for item in await store.transcript(exchange.conversation):
        if wanted not in readable_text(item.data).casefold():
            continue
        is_known = item.row.exchange in so_far and item.row.id not in replies
        entry = sent.get(item.row.id) or covered.get(item.row.id)
        holders.append(await _holder(store, item, entry, wanted, is_known=is_known))
    return holders


async def _holder(store: Store, item: StoredItem, entry: Entry | None, wanted: str, *, is_known: bool) -> Holder:
    served, reason, still = ("absent" if is_known else "not there yet"), "", False
    if entry is not None:
        served = _form(entry) if entry.item == item.row.id else f"folded into {entry.item}"
        reason = entry.reason
        still = wanted in readable_text(await store.body(entry.body) or b"").casefold()
    row = item.row
    return Holder(row.id, row.kind, row.role, row.created_at, served, reason, still)
