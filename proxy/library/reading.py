"""Reads one conversation out of the store: its newest branch, its messages in order, what was said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proxy.core.identity import forced_conversation
from proxy.core.model import Conversation, Element, Frame
from proxy.core.records import BranchRow, StoredItem
from proxy.errors import NotFoundError, NotUnderstoodError
from proxy.marks import IMPORTANCE, PIN
from proxy.store.base import Store
from proxy.wire.base import WireFormat
from proxy.wire.elements import count_head
from proxy.wire.registry import Registry

DEFAULT_NAME = "default"
_ALL = 1_000_000


@dataclass(frozen=True, slots=True)
class Past:
    """A conversation as it is stored; `rows`, `ids` and `elements` are parallel."""

    id: str
    branch: BranchRow
    fmt: WireFormat
    ids: tuple[str, ...] = ()
    elements: tuple[Element, ...] = ()
    rows: tuple[StoredItem, ...] = ()
    pinned: frozenset[str] = frozenset()
    importance: Mapping[str, float] = field(default_factory=dict)
    cites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plans: Mapping[str, str] = field(default_factory=dict)  # ids of plans by the ask that they were made for

    def conversation(self, model: str) -> Conversation:
        """The list as a request would bring it."""
        return Conversation(
            wire="responses" if self.fmt.name == "responses" else "chat",
            model=model,
            is_stream=False,
            elements=self.elements,
            head=count_head(self.elements),
            frame=Frame(b"", (), b""),
        )


async def resolve(store: Store, tenant: str, name: str | None) -> str:
    """The id of a conversation by its name, its id or the start of that; None: the library's own, else the newest.

    Raises `NotFoundError`.
    """
    known = [one.id for one in await store.conversations(limit=_ALL)]
    own = forced_conversation(tenant, name or DEFAULT_NAME)
    if own in known:
        return own
    if name is None:
        if not known:
            raise NotFoundError("the store holds no conversation", hint="Add an item, or point an agent at the proxy.")
        return known[0]
    found = [name] if name in known else [id for id in known if name and id.startswith(name)]
    if len(found) == 1:
        return found[0]
    what = f"{name!r} is the start of {len(found)} conversation ids" if found else f"there is no conversation {name!r}"
    raise NotFoundError(what, hint="List them: undercliff conversations.")


async def read_past(store: Store, formats: Registry, conversation: str) -> Past:
    """The conversation on its newest main branch. Raises `NotFoundError` when it has none."""
    branches = await store.branches(conversation)
    if not branches:
        raise NotFoundError(f"conversation {conversation} has no messages yet", hint="Add some, or ask for another.")
    branch = max(branches, key=lambda row: (row.kind == "main", row.updated_at, row.id))
    stored = {item.row.id: item async for item in await store.transcript(conversation, branch=branch.id)}
    ids = await store.path(branch.path) if branch.path else ()
    rows = [stored[id] for id in ids if id in stored]
    fmt = await _format(store, formats, conversation)
    elements = [_element(fmt, formats, row.data) for row in rows]
    marks = await store.marks(conversation)
    links: dict[str, tuple[str, ...]] = {}
    for link in await store.links(conversation):
        if link.type in ("cites", "derived_from"):
            links[link.a] = (*links.get(link.a, ()), link.b)
    return Past(
        id=conversation,
        branch=branch,
        fmt=fmt,
        ids=tuple(row.row.id for row in rows),
        elements=tuple(elements),
        rows=tuple(rows),
        pinned=_pins(rows, {mark.item: mark.value == "1" for mark in marks if mark.name == PIN}),
        importance={
            **{row.row.id: row.row.importance for row in rows if row.row.importance},
            **{mark.item: float(mark.value) for mark in marks if mark.name == IMPORTANCE},
        },
        cites=links,
        plans={mark.name: mark.value for mark in marks if mark.name.startswith("plan:")},
    )


def _pins(rows: Sequence[StoredItem], said: Mapping[str, bool]) -> frozenset[str]:
    return frozenset(row.row.id for row in rows if said.get(row.row.id, row.row.is_pinned))


async def _format(store: Store, formats: Registry, conversation: str) -> WireFormat:
    for exchange, _ in await store.exchanges(conversation):
        if exchange.wire in ("chat", "responses"):
            return formats.named(exchange.wire)
    return formats.chat


def _element(fmt: WireFormat, formats: Registry, raw: bytes) -> Element:
    """A stored element; one of the other format for what a fork or a summary left."""
    try:
        return fmt.read_element(raw)
    except NotUnderstoodError:
        return (formats.responses if fmt.name == "chat" else formats.chat).read_element(raw)
