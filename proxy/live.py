"""The branches in memory: found by content, loaded from the store when they are not there, kept within bounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter, is_

import msgspec
import structlog

from proxy.core.branches import BranchIndex, BranchView, LastOutcome, Placement, finish, follow
from proxy.core.hidden import Hidden, restored
from proxy.core.identity import Numbered, Path, Probe, Step, decode_step, listed
from proxy.core.model import Conversation
from proxy.core.placement import place
from proxy.core.receipts import Key, keys, new_keys
from proxy.core.records import Batch, BranchRow, StoredItem
from proxy.core.window import EMPTY, Plan, covering, decode_plan
from proxy.errors import StoreError
from proxy.recording import Chain, Served, now
from proxy.store.base import Store
from proxy.windows import Prior
from proxy.wire.base import WireFormat

log = structlog.get_logger()

_ITEM = attrgetter("item")
_SETTLED = frozenset({"continue", "retry", "twin"})
"""Verdicts that memory alone can be sure of, as a rule; for any other the store may know a better branch."""


class BranchState(msgspec.Struct, omit_defaults=True):
    """The small state of a branch that must outlive the process. Written with every exchange."""

    input: int = 0  # billed input tokens of the last successful call
    output: int = 0
    is_estimated: bool = False
    estimate: int = 0  # our own count of the window that was billed
    billed_plan: str = ""  # the plan that window was served under
    at: float = 0.0
    cached_by: tuple[str, bytes] = ("", b"")  # the model and the tools of the last successful call
    outcome: str = ""
    calls: int = 0
    head: int = 0  # leading items of the path that are system messages
    memory: dict[str, float] = {}
    is_suspended: bool = False  # the provider refused a rewritten list; left alone from then on
    futile_at: int = 0  # tokens of the window for which shrinking did not help; no new attempt before real growth
    carried: int = 0  # leading entries of the last window that the one before it had as well
    sent: int = 0  # steps of the path that were the last request; the rest is the reply to it
    kinds: tuple[tuple[bytes, int], ...] = ()  # blocks that come and go
    fold: str = ""  # summary item of the newest fold that was carried out in the store for this branch
    absent: tuple[str, ...] = ()  # items of the last request that its window left out: seen before, gone since
    is_partial: bool = False  # the provider put items before its lists, or keeps none of its replies
    expand: str = ""  # the name under which the tool that expands was offered; from then on it stays
    hidden: tuple[Hidden, ...] = ()  # what replies held that the client did not see
    importance: dict[str, float] = {}  # how often the model came back for an item
    kept_as: dict[str, str] = {}  # by what the client calls a reply in rounds: the last response of it


_STATE = msgspec.msgpack.Decoder(BranchState)
_ENCODER = msgspec.msgpack.Encoder()


def encode_state(state: BranchState) -> bytes:
    return _ENCODER.encode(state)


def decode_state(data: bytes) -> BranchState:
    return _STATE.decode(data) if data else BranchState()


@dataclass(slots=True)
class Live:
    """A branch with all that its next request needs."""

    view: BranchView
    version: int = 0
    plan: Plan = EMPTY
    plan_id: str = ""
    state: BranchState = field(default_factory=BranchState)
    path: Chain = field(default_factory=Chain)
    served: Served = field(default_factory=Served)
    unsaved: tuple[Key, ...] = ()  # receipts that no row names yet: a request may be stopped before it is recorded
    is_lost: bool = False  # rows did not reach the disk: the next ones must not build on them
    is_fold_lost: bool = False  # the standing fold was among them
    base: Live | None = None  # the branch of the same conversation that this one left, until its first rows are made
    parts: frozenset[str] = frozenset()  # records of parts that the standing fold names; may be fewer
    hidden: dict[str, bytes] = field(default_factory=dict)  # the items that the client did not see
    numbered: Numbered | None = None  # the last request's list with its items' ids
    prior: Prior | None = None  # what the last request left to spare the next one work; may be gone at any time
    _seen: tuple[tuple[object, ...], frozenset[str]] = ((), frozenset())  # with what it was made from

    @property
    def seen(self) -> frozenset[str]:
        """Ids of items that the model has had in full in a successful request."""
        entries, fold, absent = self.served.entries, self.plan.fold, self.state.absent
        made_from, seen = self._seen
        if not made_from or not all(map(is_, made_from, (entries, fold, absent))):
            seen = frozenset(map(_ITEM, entries)).union(fold.covers if fold is not None else (), absent)
            self._seen = (entries, fold, absent), seen
        return seen

    def restored(
        self, fmt: WireFormat, conversation: Conversation, ids: Sequence[str]
    ) -> tuple[Conversation, tuple[str, ...]] | None:
        """The client's list with what was hidden from it; None when nothing was."""
        if not self.state.hidden:
            return None
        known = {item: fmt.read_element(raw) for item, raw in self.hidden.items()}
        folded = self.plan.fold.covers if self.plan.fold is not None else ()
        return restored(conversation, ids, self.state.hidden, known, frozenset(folded))

    def lose(self, batch: Batch) -> None:
        """The store did not take this batch."""
        self.is_lost = True
        self.is_fold_lost = self.is_fold_lost or bool(batch.folds)

    def row(self, tenant: str) -> BranchRow:
        """The branch as it is written, one version on."""
        self.version += 1
        view = self.view
        return BranchRow(
            id=view.id,
            tenant=tenant,
            conversation=view.conversation,
            kind=view.kind,
            version=self.version,
            scope=view.scope,
            parent=view.parent,
            parent_kind=view.parent_kind,
            epoch=view.epoch,
            head_hash=view.head_hash,
            tools_hash=view.tools_hash,
            model=view.model,
            path=self.path.id,
            window=self.served.id,
            plan=self.plan_id,
            state=encode_state(self.state),
            updated_at=now(),
        )


class LiveBranches:
    """Finds a request's branch: in memory first, then in the store. Memory is bounded; the store is the truth."""

    def __init__(
        self, store: Store, *, max_bytes: int = 256 * 1024 * 1024, max_prior_bytes: int = 256 * 1024 * 1024
    ) -> None:
        self._store = store
        self._index = BranchIndex(max_bytes)
        self._live: dict[tuple[str, str], Live] = {}
        self._tick = 0
        self._max_prior_bytes = max_prior_bytes
        self._prior_bytes = 0
        self._priors: OrderedDict[tuple[str, str], int] = OrderedDict()

    async def place(self, probe: Probe, *, discriminator: str) -> tuple[Placement, Live, tuple[Key, ...]]:
        """The request's place, its branch moved on to it, and the receipts that are new with it.

        A store that cannot be read counts as empty: the request then starts a branch of its own.
        """
        wanted = keys(probe)
        known = self._index.candidates(probe.tenant, wanted, probe.hints.scope)
        placement = place(probe, known, discriminator=discriminator)
        if placement.verdict not in _SETTLED or _has_unknown_words(placement):
            loaded = await self._load(probe, wanted)
            # Other requests ran meanwhile: what memory knows now is newer than what was read.
            known = self._index.candidates(probe.tenant, wanted, probe.hints.scope)
            placement = place(probe, _merge(known, loaded), discriminator=discriminator)
        return placement, *self._follow(placement, probe)

    def _follow(self, placement: Placement, probe: Probe) -> tuple[Live, tuple[Key, ...]]:
        self._tick += 1
        name = (probe.tenant, placement.branch)
        live = self._live.get(name)
        view = follow(placement, probe, self._tick)
        if live is None:
            live = Live(view)
            parent = self._live.get((probe.tenant, placement.parent))
            if parent is not None and placement.parent_kind in ("fork", "twin", "resumed_from"):
                # A fork starts with its parent's plan: what it names by id and finds in the request holds.
                live.plan, live.plan_id = parent.plan, parent.plan_id
                live.served = Served("", 0, parent.served.entries)
                live.state = msgspec.structs.replace(parent.state, calls=0, fold="")
                live.hidden, live.parts = dict(parent.hidden), parent.parts
                if parent.view.conversation == view.conversation:
                    live.base = parent
            if parent is not None:
                live.prior, live.numbered = parent.prior, parent.numbered
            self._live[name] = live
        start = placement.lcp if placement.lcp <= len(view.path) else 0
        fresh = new_keys(view.path, start, view.scope)
        live.view = view
        live.unsaved = (*live.unsaved, *fresh)
        self._put(view, fresh)
        return live, live.unsaved

    def finish(self, live: Live, view: BranchView, fresh: Sequence[Key]) -> None:
        """A reply came to its end: the branch moves on, unless a newer request already did so."""
        if live.view.tick <= view.tick:
            live.view = view
            self._put(view, fresh)

    def leave(self, live: Live) -> None:
        """The request that was placed last never went out: to the next one it counts as cancelled."""
        self.finish(live, finish(live.view, (), "cancelled", self.tick()), ())

    def keep(self, live: Live, prior: Prior) -> None:
        """Keep what spares the branch's next request work, within bounds: the least recently used go first."""
        name = (live.view.tenant, live.view.id)
        self._prior_bytes -= self._priors.pop(name, 0)
        live.prior = prior
        self._priors[name] = size = prior.size_bytes
        self._prior_bytes += size
        while self._prior_bytes > self._max_prior_bytes and len(self._priors) > 1:
            name, size = self._priors.popitem(last=False)
            self._prior_bytes -= size
            if (old := self._live.get(name)) is not None:
                old.prior = old.numbered = None

    def tick(self) -> int:
        self._tick += 1
        return self._tick

    def _put(self, view: BranchView, fresh: Sequence[Key]) -> None:
        self._index.put(view, fresh)
        if len(self._live) > 2 * len(self._index) + 64:
            self._live = {
                name: live for name, live in self._live.items() if self._index.get(name[0], name[1]) is not None
            }

    async def _load(self, probe: Probe, wanted: Sequence[Key]) -> list[BranchView]:
        views: list[BranchView] = []
        try:
            rows = await self._store.find_branches(probe.tenant, wanted, probe.hints.scope)
            for row in sorted(rows, key=lambda row: row.updated_at):  # of two that fit as well, the newer one counts
                live = self._live.get((probe.tenant, row.id))
                if live is None or live.version < row.version:
                    live = await self._restore(row)
                    self._live[(probe.tenant, row.id)] = live
                    self._index.put(live.view)
                views.append(live.view)
        except StoreError as error:
            log.warning("branches_not_loaded", error=str(error))
        return views

    async def _restore(self, row: BranchRow) -> Live:
        """A branch as it was when it was last written."""
        state = decode_state(row.state)
        items = await self._store.path(row.path) if row.path else ()
        stored = {item.row.id: item for item in await self._store.items(row.conversation, items)}
        steps = _steps(items[state.head :], stored)
        view = BranchView(
            id=row.id,
            tenant=row.tenant,
            conversation=row.conversation,
            kind=row.kind,
            parent=row.parent,
            parent_kind=row.parent_kind,
            scope=row.scope,
            head_hash=row.head_hash,
            tools_hash=row.tools_hash,
            model=row.model,
            epoch=row.epoch,
            path=Path(steps),
            sent=min(state.sent, len(steps)),
            outcome=_outcome(state.outcome),
            kinds=state.kinds,
            tick=self.tick(),
        )
        live = Live(view, version=row.version, plan_id=row.plan, state=state)
        live.path = Chain(row.path, 0, items)
        if row.plan and (plan := await self._store.plan(row.plan)) is not None:
            live.plan = decode_plan(plan.data)
            if live.plan.fold is not None and not live.plan.fold.covers:
                covers = await self._store.coverage(row.conversation, live.plan.fold.item)
                record = await self._store.summary(f"{row.id}:{live.plan.fold.item}")
                live.parts = frozenset(record.covers if record is not None else ()).difference(covers)
                live.plan = covering(live.plan, covers)
        hidden = [item for entry in state.hidden for item in entry.items]
        for item in await self._store.items(row.conversation, hidden) if hidden else ():
            if (body := await self._store.body(item.row.body)) is not None:
                live.hidden[item.row.id] = body
        if row.window and (manifest := await self._store.window(row.window)) is not None:
            live.served = Served(row.window, 0, manifest.entries)
        return live


def _has_unknown_words(placement: Placement) -> bool:
    """Are there words of the model that were not relayed here? Then another process may have moved the branch on."""
    return any(step.role == "assistant" for step in placement.path.steps[placement.lcp :])


def _steps(items: Sequence[str], stored: dict[str, StoredItem]) -> list[Step]:
    return listed([decode_step(stored[item].row.atoms) for item in items if item in stored and stored[item].row.atoms])


def _outcome(text: str) -> LastOutcome:
    if text == "ok":
        return "ok"
    return "cancelled" if text in ("", "cancelled", "interrupted") else "failed"


def _merge(first: Sequence[BranchView], second: Sequence[BranchView]) -> list[BranchView]:
    views = {view.id: view for view in second}
    views.update({view.id: view for view in first})
    return list(views.values())
