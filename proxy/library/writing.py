"""Adds items to a conversation of the library's own, as the rows that the proxy would write. Awaits the store."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from proxy.core.identity import forced_conversation, item_id, short_id, steps_of
from proxy.core.links import LinkReader, link_type
from proxy.core.listing import Listing
from proxy.core.model import Element
from proxy.core.offers import Listed
from proxy.core.records import Batch, BodyRow, BranchRow, ExchangeRow, ItemRow, LinkRow, LinkType, SummaryRow
from proxy.core.window import Fold
from proxy.errors import InputError
from proxy.library.reading import Past
from proxy.live import BranchState, encode_state
from proxy.recording import Chain, item_rows, now, path_row
from proxy.store.base import Store
from proxy.wire import compose
from proxy.wire.base import WireFormat
from proxy.wire.elements import count_head

PLAIN = {"system": "system", "developer": "developer", "user": "user", "assistant": "assistant"}
KINDS = (*PLAIN, "message", "tool_result", "file_read")


@dataclass(frozen=True, slots=True)
class Addition:
    """What an application adds; see `facade.ContextStore.add`."""

    kind: str
    body: str | Mapping[str, object]
    is_pinned: bool = False
    source: str = ""
    importance: float = 0.0
    links: tuple[tuple[str, LinkType], ...] = ()
    tool: str = ""


@dataclass(slots=True)
class Ledger:
    """One conversation that the library writes, with what its next rows build on."""

    id: str
    branch: str
    tenant: str
    exchange: str
    listing: Listing = field(default_factory=Listing)
    ids: list[str] = field(default_factory=list)
    counts: Counter[bytes] = field(default_factory=Counter)
    path: Chain = field(default_factory=Chain)
    version: int = 0
    links: LinkReader = field(default_factory=LinkReader)
    is_new: bool = True  # no exchange row yet
    written: BranchRow | None = None  # what the last addition made of the branch

    @classmethod
    def empty(cls, tenant: str, name: str) -> Ledger:
        """A conversation that has nothing in it."""
        id = forced_conversation(tenant, name)
        return cls(id, short_id("library", id), tenant, f"{int(time.time() * 1000):011x}{secrets.token_hex(5)}")

    @classmethod
    def of(cls, tenant: str, name: str, past: Past) -> Ledger:
        """One that goes on. Raises `InputError` where an agent wrote it through the proxy."""
        made = cls.empty(tenant, name)
        if past.branch.id != made.branch:
            raise InputError(
                f"conversation {past.id} is an agent's: the library may ask, pin and link, but not add to it",
                hint="Add to a conversation of another name.",
            )
        made.version = past.branch.version
        made.path = Chain(past.branch.path, 0, past.ids)
        made.take(past.elements, past.ids)
        return made

    @property
    def elements(self) -> tuple[Element, ...]:
        return self.listing.elements

    def take(self, fresh: Sequence[Element], ids: Sequence[str] = ()) -> tuple[LinkRow, ...]:
        """Count elements in, under the ids they have or new ones; the links that follow from them."""
        first = len(self.elements)
        self.listing = self.listing.extended((*self.elements, *fresh))
        links: list[LinkRow] = []
        for index, element in enumerate(fresh, first):
            id = ids[index - first] if ids else item_id(self.id, element.hash, self.counts[element.hash])
            self.ids.append(id)
            self.counts[element.hash] += 1
            site = self.listing.sites.get(index)
            if site is not None:
                links.append(LinkRow(self.id, id, self.ids[site.index], "replies_to"))
            note = self.links.read(Listed(id, index, element, site.call if site is not None else None))
            kind = link_type(element)
            links += [LinkRow(self.id, id, cited, kind) for cited in (note.cites if note is not None else ())]
        return tuple(links)

    def row(self, model: str = "") -> BranchRow:
        """The branch as it is now."""
        self.version += 1
        head = count_head(self.elements)
        state = BranchState(head=head, sent=len(self.elements) - head, outcome="ok")
        self.written = BranchRow(
            id=self.branch,
            tenant=self.tenant,
            conversation=self.id,
            kind="main",
            version=self.version,
            model=model,
            path=self.path.id,
            state=encode_state(state),
            updated_at=now(),
        )
        return self.written


async def add(store: Store, fmt: WireFormat, ledger: Ledger, addition: Addition) -> str:
    """Write an item; returns its id once it is on disk."""
    fresh = [fmt.read_element(raw) for raw in _raws(addition, len(ledger.elements))]
    links = ledger.take(fresh)
    _check_answers(ledger, len(fresh))
    id = ledger.ids[-1]
    links += tuple(LinkRow(ledger.id, id, other, kind) for other, kind in addition.links)
    await store.submit(_batch(ledger, addition, fresh, links))
    ledger.is_new = False
    return id


async def is_current(store: Store, ledger: Ledger) -> bool:
    """Is what a ledger builds on still the newest, or did another process write meanwhile?"""
    row = await store.branch(ledger.branch)
    return (row.version if row is not None else 0) == ledger.version


async def has_won(store: Store, ledger: Ledger, id: str) -> bool:
    """Does the item stand in the conversation? Of two that built on the same state the store takes the first."""
    row, own = await store.branch(ledger.branch), ledger.written
    if row is None or own is None or row.version < own.version:
        return False
    if row.version == own.version:
        return (row.path, row.updated_at) == (own.path, own.updated_at)
    # Ids follow from contents: the other one's very same message at the same place has this id too.
    found = await store.items(ledger.id, [id]) if id in await store.path(row.path) else []
    return any(item.row.exchange == ledger.exchange for item in found)


def _check_answers(ledger: Ledger, count: int) -> None:
    """A result without its call would make every window that holds it one that no provider takes."""
    for index in range(len(ledger.elements) - count, len(ledger.elements)):
        if ledger.elements[index].kind == "tool_result" and index not in ledger.listing.sites:
            raise InputError(
                "this result answers no call of the conversation that waits for one",
                hint='Add the assistant message with its call first, or give the text alone as a "tool_result".',
            )


def _batch(ledger: Ledger, addition: Addition, fresh: Sequence[Element], links: tuple[LinkRow, ...]) -> Batch:
    first = len(ledger.elements) - len(fresh)
    items, bodies = item_rows(
        fresh,
        ledger.ids[first:],
        steps_of(fresh),
        ledger.listing.groups[first:],
        conversation=ledger.id,
        branch=ledger.branch,
        exchange=ledger.exchange,
    )
    path, ledger.path = path_row(ledger.branch, ledger.path, tuple(ledger.ids))
    return Batch(
        bodies=bodies,
        items=(*items[:-1], _described(items[-1], addition)),
        exchanges=(_exchange(ledger),) if ledger.is_new else (),
        branches=(ledger.row(),),
        paths=(path,) if path is not None else (),
        links=links,
    )


def _described(row: ItemRow, addition: Addition) -> ItemRow:
    """The item itself, with what the application said of it."""
    kind, source = row.kind, addition.source
    if addition.kind == "file_read":
        kind = "file_read"
        text = addition.body if isinstance(addition.body, str) else ""
        source = f"{source} {blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
    is_pinned = addition.is_pinned or row.role in ("system", "developer")
    return replace(row, kind=kind, source=source, is_pinned=is_pinned, importance=addition.importance)


def _raws(addition: Addition, place: int) -> list[bytes]:
    """The messages that an addition becomes: a result comes with the call that it answers."""
    body = addition.body
    if addition.kind == "message":
        if not isinstance(body, Mapping):
            raise InputError("the body of a message is a mapping", hint='Such as {"role": "user", "content": "…"}.')
        return [compose.given(body)]
    if not isinstance(body, str):
        raise InputError(f"the body of a {addition.kind} is a text, not {type(body).__name__}")
    if addition.kind in PLAIN:
        return [compose.message(PLAIN[addition.kind], body)]
    call_id = f"call_{place}"
    if addition.kind == "file_read":
        made = compose.call(call_id, addition.tool or "read_file", {"path": addition.source})
    else:
        made = compose.call(call_id, addition.tool or "tool", {"input": addition.source})
    return [made, compose.result(call_id, body)]


def _exchange(ledger: Ledger) -> ExchangeRow:
    """A session of the library counts as one exchange: who wrote, and when."""
    return ExchangeRow(
        id=ledger.exchange,
        tenant=ledger.tenant,
        conversation=ledger.id,
        branch=ledger.branch,
        verdict="library",
        method="",
        path="",
        model="",
        wire="chat",
        is_stream=False,
        request_bytes=0,
        items=len(ledger.elements),
        created_at=now(),
    )


def summary_rows(past: Past, fold: Fold) -> Batch:
    """A window's summary as an item of its own, with what it stands for. It stays out of the conversation's views."""
    raw = past.fmt.note(fold.text)
    body = BodyRow(blake2b(raw, digest_size=16).digest(), raw)
    item = ItemRow(
        id=fold.item,
        conversation=past.id,
        branch=short_id("windows of", past.branch.id),
        kind="summary",
        role="user",
        body=body.hash,
        atoms=b"",
        created_at=now(),
    )
    summary = SummaryRow(
        key=f"{past.branch.id}:{fold.item}",
        conversation=past.id,
        item=fold.item,
        body=body.hash,
        summarizer="digest",
        covers=fold.covers,
        tokens=0,
        created_at=now(),
    )
    return Batch(bodies=(body,), items=(item,), summaries=(summary,))
