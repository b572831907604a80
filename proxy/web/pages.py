"""What the pages show, as values: lists, rows with both views side by side, a timeline. Reads; renders nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from policies.model import Form
from proxy.core.display import visible
from proxy.core.filters import Filters
from proxy.core.records import BranchRow, ConversationSummary, Entry, Manifest, StoredItem
from proxy.errors import StoreError
from proxy.store import listing
from proxy.store.archive import Archive
from proxy.store.base import Store
from proxy.store.database import Database
from proxy.store.reader import transcript_page
from proxy.store.source import Place
from proxy.wire.readable import readable_text

T = TypeVar("T")

CHUNK = 50
PREVIEW_CHARS = 600
WHOLE_CHARS = 200_000
LIST_ROWS = 100
TEAM = "team:"
SHORT_BYTES = 220
"""An original of at most so many bytes gets a low row: its height is known before its text is read."""
_SNIPPET = 160


@dataclass(frozen=True, slots=True)
class TeamShown:
    """What a team used since midnight, UTC."""

    name: str
    tenant: str
    requests: int
    input: int
    cached: int
    output: int
    cost: float
    cost_direct: float


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a row. `form` names a colour; `why` is told on hover."""

    text: str
    form: str
    why: str = ""
    is_cut: bool = False
    tokens: int = 0


_UNSEEN = Side("", "absent", "made by the proxy: the user never saw it")


@dataclass(frozen=True, slots=True)
class RowShown:
    """One message: what the user sees beside what the model sees of it now."""

    number: int
    id: str
    kind: str
    role: str
    created_at: str
    user: Side
    model: Side
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """`unpriced` are ids of conversations for whose calls no price is known; `mark` changes with all of it."""

    found: list[ConversationSummary]
    unpriced: frozenset[str]
    totals: dict[str, Any]
    mark: str


@dataclass(frozen=True, slots=True)
class Hit:
    conversation: str
    item: str
    role: str
    kind: str
    text: str


class Pages:
    """Gathers what a page needs. Every read is short, and off the event loop."""

    def __init__(self, store: Store, file: Place | None) -> None:
        self._store = store
        self._file = file
        self._last: tuple[str, str, _Served] | None = None  # chunks of one page come one after the other

    async def ask(self, read: Callable[[Database], T]) -> T:
        """One read on a connection of its own. Raises `StoreError` without a store's file."""
        file = self._file
        if file is None:
            raise StoreError("there is no store to look into", hint="Run with a store, in a SQLite file.")

        def work() -> T:
            with Archive(file) as archive:
                return archive.read(read)

        return await asyncio.to_thread(work)

    async def teams(self) -> list[TeamShown]:
        """Those that asked for something today, dearest first; none where there are no teams."""
        rows = await self._store.usage(datetime.now(UTC).strftime("%Y-%m-%dT00:00:00.000000Z"))
        return [
            TeamShown(row.tenant.removeprefix(TEAM), row.tenant, row.requests, row.input, row.cached, row.output,
                      row.cost, row.cost_direct)
            for row in rows
            if row.tenant.startswith(TEAM)
        ]  # fmt: skip

    async def conversations(self, filters: Filters) -> Listed:
        """The newest conversations that fit, the sums over all that fit, and what changes when any of it does."""

        def read(db: Database) -> Listed:
            found = listing.listed(db, filters, LIST_ROWS)
            free = listing.unpriced(db, [one.id for one in found if not one.cost])
            return Listed(found, free, listing.totals(db, filters), listing.newest(db))

        return await self.ask(read)

    async def hits(self, query: str) -> list[Hit]:
        """Messages that hold the words, as they stand."""
        found = []
        for item, _ in await self._store.search(query, limit=50):
            found.append(Hit(item.row.conversation, item.row.id, item.row.role, item.row.kind,
                             visible(_around(item.row.text, query))))  # fmt: skip
        return found

    async def conversation(self, id: str) -> ConversationSummary | None:
        found = await self.ask(lambda db: listing.listed(db, Filters(conversations=(id,)), 1))
        return found[0] if found else None

    async def chunks(self, id: str) -> list[Chunk]:
        """Where the rows of a conversation begin, and how many of them are low."""
        low = await self.ask(lambda db: listing.short_messages(db, id, SHORT_BYTES))
        return [Chunk(at, len(low[at : at + CHUNK]), sum(low[at : at + CHUNK])) for at in range(0, len(low), CHUNK)]

    async def place(self, id: str, item: str) -> int:
        return await self.ask(lambda db: listing.place_of(db, id, item))

    async def timeline(self, id: str) -> list[dict[str, Any]]:
        return await self.ask(lambda db: listing.timeline(db, id))

    async def rows(self, id: str, start: int) -> list[RowShown]:
        """A chunk of the conversation from message number `start`."""
        stored = await self.ask(lambda db: _stored(db, id, start))
        served = await self._served(id)
        return [await self._row(item, start + i, served, PREVIEW_CHARS) for i, item in enumerate(stored)]

    async def row(self, id: str, item: str) -> RowShown | None:
        """One row, whole."""
        place = await self.place(id, item)
        if place < 0:
            return None
        (stored,) = (await self.ask(lambda db: _stored(db, id, place)))[:1]
        return await self._row(stored, place, await self._served(id), WHOLE_CHARS)

    async def _served(self, id: str) -> _Served:
        branch = newest_branch(await self._store.branches(id))
        manifest = await self._store.window(branch.window) if branch is not None and branch.window else None
        if branch is None or manifest is None:
            return _Served({}, {}, frozenset())
        if self._last is not None and self._last[:2] == (id, branch.window):
            return self._last[2]
        folds = [entry for entry in manifest.entries if entry.form == Form.FOLDED]
        covered = {item: fold for fold in folds for item in await self._store.coverage(id, fold.item)}
        path = frozenset(await self._store.path(branch.path))
        served = _Served({entry.item: entry for entry in manifest.entries}, covered, path)
        self._last = (id, branch.window, served)
        return served

    async def _row(self, item: StoredItem, number: int, served: _Served, limit: int) -> RowShown:
        row = item.row
        original = readable_text(item.data) if item.data else row.text
        user = _UNSEEN if row.kind == "summary" else _side(original, "full", "", limit)
        model = await self._model_side(item, original, served, limit)
        is_short = len(item.data or b"") <= SHORT_BYTES
        return RowShown(number, row.id, row.kind, row.role, row.created_at, user, model, is_short)

    async def _model_side(self, item: StoredItem, original: str, served: _Served, limit: int) -> Side:
        entry = served.entries.get(item.row.id)
        if entry is not None:
            form = Form(entry.form).name.lower()
            sent = original if entry.form == Form.FULL else readable_text(await self._store.body(entry.body) or b"")
            return _side(sent, form, entry.reason or ("sent as it came" if form == "full" else ""), limit, entry.tokens)
        fold = served.covered.get(item.row.id)
        if fold is not None:
            return Side(f"folded into {fold.item}", "folded", fold.reason)
        if not served.entries:
            return Side("", "absent", "no window was sent yet")
        if item.row.id in served.path:
            return Side("not sent yet", "absent", "it came after the last window")
        return Side("", "absent", "not on the branch that is shown, or the client took it out")

    async def window(self, id: str) -> Manifest | None:
        return await self._store.window(id)


@dataclass(frozen=True, slots=True)
class Chunk:
    start: int
    rows: int
    low: int


@dataclass(frozen=True, slots=True)
class _Served:
    entries: dict[str, Entry]
    covered: dict[str, Entry]
    path: frozenset[str]


def newest_branch(branches: Sequence[BranchRow]) -> BranchRow | None:
    """The top-level agent's newest branch."""
    return max(branches, key=lambda row: (row.kind == "main", row.updated_at, row.id), default=None)


def _stored(connection: Database, id: str, start: int) -> list[StoredItem]:
    after = listing.before(connection, id, start)
    found: list[StoredItem] = []
    while len(found) < CHUNK and (page := transcript_page(connection, id, None, after)):
        found += page
        after = page[-1].seq
    return found[:CHUNK]


def _side(text: str, form: str, why: str, limit: int, tokens: int = 0) -> Side:
    shown = visible(text[:limit])
    return Side(shown, form, why, len(text) > limit or shown.count("\n") > 5, tokens)


def _around(text: str, query: str) -> str:
    place = max(text.casefold().find(query.casefold().strip()), 0)
    start = max(place - _SNIPPET // 2, 0)
    return ("…" if start else "") + text[start : start + _SNIPPET + len(query)]
