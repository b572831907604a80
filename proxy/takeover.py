"""Requests that name what the provider keeps: read as the whole lists that they stand for, where we hold them.

A previous response is taken over (sent as a list of its own) only where that says the same to any provider;
everything else is placed and recorded, and goes out as it came. Writes nothing itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from proxy.background import Background, Watch
from proxy.core.identity import Step, decode_step, hash_response
from proxy.core.model import Conversation, Element, Reply
from proxy.core.records import Batch, BranchRow, KeyRow, StoredItem
from proxy.errors import NotUnderstoodError, StoreError
from proxy.live import decode_state
from proxy.store.base import Store
from proxy.turn import Turn
from proxy.upstream import UpstreamResponse
from proxy.wire.base import WireFormat
from proxy.wire.responses_chain import (
    asks_for_state,
    behind,
    behind_all_of,
    can_stand_alone,
    named_by,
    references,
    with_references,
)
from proxy.wire.responses_items import provider_id

log = structlog.get_logger()

STATE_NOTE = "state at the provider: passed as it came"
HISTORIES_KEPT = 256
ITEM_BYTES = 32 * 1024 * 1024
DELETED = "deleted"
"""Kind of the key that says of a response, found by kind "response", that its provider has deleted it."""
_NAMES_LOOKED_UP = 256


@dataclass(frozen=True, slots=True)
class History:
    """All that stands behind a response, and the response. `is_whole`: the provider had nothing else before it."""

    elements: tuple[Element, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as one list. `original` is what the client sent where that is less: a list behind a response."""

    conversation: Conversation
    original: Conversation | None = None


class Deletion:
    """Waits for the provider's word that it has deleted a response."""

    def __init__(self, chains: Chains, tenant: str, name: str) -> None:
        self._chains, self._tenant, self._name = chains, tenant, name
        self._is_done = False

    def start(self, response: UpstreamResponse) -> None:
        """The head says whether it worked."""
        self._is_done = 200 <= response.status < 300

    def feed(self, chunk: bytes) -> None:
        """Nothing in the body is of interest."""

    async def finish(self) -> None:
        """Forget it as well."""
        if self._is_done:
            await self._chains.forget(self._tenant, self._name)


class Chains:
    """Finds what requests name: in memory, else in the store. Only ever within one tenant."""

    def __init__(self, store: Store, *, is_on: bool = True) -> None:
        self._store = store
        self._is_on = is_on
        self.background = Background(store)
        self._histories: OrderedDict[tuple[str, str], History] = OrderedDict()
        self._items: OrderedDict[tuple[str, str], Element] = OrderedDict()
        self._named: OrderedDict[tuple[str, bytes], Element] = OrderedDict()
        self._kept_as: OrderedDict[tuple[str, str], str] = OrderedDict()  # of replies in several rounds
        self._item_bytes = 0

    async def resolve(self, fmt: WireFormat, conversation: Conversation, tenant: str) -> Asked:
        """The request as the list that it stands for; where that is not at hand, as it came."""
        if conversation.wire != "responses":
            return Asked(conversation)
        if found := references(conversation.elements):
            conversation = await self._with_references(fmt, conversation, found, tenant)
        if not conversation.hints.behind:
            return Asked(conversation)
        history = await self._history(fmt, tenant, conversation.hints.behind)
        if history is None or not conversation.elements:
            return Asked(conversation)
        whole = behind(conversation, history.elements, fmt.read_element)
        is_ours = self._is_on and history.is_whole and not asks_for_state(whole) and can_stand_alone(whole.elements)
        if kept_as := self._kept_as.get((tenant, conversation.hints.previous_response)):
            # There, the response that the client knows ends with a call that only we have answered.
            conversation = behind_all_of(conversation, kept_as)
        return Asked(replace(whole, is_opaque=not is_ours, is_partial=not history.is_whole), conversation)

    def remember(self, turn: Turn, reply: Reply | None, tenant: str) -> Batch:
        """Keep what later requests may name, and return the rows by which it is found after a restart."""
        conversation = turn.conversation
        if reply is not None and conversation.is_opaque:
            self.background.expect(turn, reply, tenant)
        if conversation.wire != "responses" or not conversation.is_stored or reply is None or not reply.elements:
            return Batch()
        elements = (*turn.own.conversation.elements, *reply.elements)  # what is hidden is put in again where it stood
        is_whole = reply.is_complete and not turn.live.state.is_partial
        for name in (reply.response_id, conversation.hints.kept_in):
            if name:
                self._histories[(tenant, name)] = History(elements, is_whole)
            while len(self._histories) > HISTORIES_KEPT:
                self._histories.popitem(last=False)
        if reply.kept_as:
            self._kept_as_last(tenant, reply.response_id, reply.kept_as)
        named = [(name, item) for name, item in zip(reply.item_ids, reply.elements, strict=False) if name]
        for name, item in named:
            self._keep(tenant, name, item)
        branch = turn.placement.branch
        return Batch(keys=tuple(KeyRow(tenant, "response", hash_response(name), branch) for name, _ in named))

    def _kept_as_last(self, tenant: str, response: str, last: str) -> None:
        self._kept_as[(tenant, response)] = last
        while len(self._kept_as) > 16 * HISTORIES_KEPT:
            self._kept_as.popitem(last=False)

    # -- what passes -------------------------------------------------------------------------------

    def watch(self, method: str, path: str, tenant: str) -> Watch | Deletion | None:
        """Who is shown the answer to a request that passes: it may hold a result, or delete a response."""
        before, _, name = path.rpartition("/")
        if method == "DELETE" and name and before.endswith("/responses"):
            return Deletion(self, tenant, name)
        return self.background.watch(method, path, tenant)

    async def forget(self, tenant: str, response: str) -> None:
        """The provider has deleted it: who names it is told so by the provider, from now on and after a restart."""
        self._histories.pop((tenant, response), None)
        rows = await self._branches(tenant, (response,))
        gone = tuple(KeyRow(tenant, DELETED, hash_response(response), row.id) for row in rows)
        try:
            await self._store.submit(Batch(keys=gone))
        except StoreError as error:
            log.warning("rows_not_stored", deleted=response, error=str(error))

    async def _is_deleted(self, tenant: str, key: bytes) -> bool:
        return bool(await self._store.find_branches(tenant, [(DELETED, key)], "", 1))

    # -- references --------------------------------------------------------------------------------

    async def _with_references(
        self, fmt: WireFormat, conversation: Conversation, found: Sequence[tuple[str, Element]], tenant: str
    ) -> Conversation:
        missing = [name for name, _ in found if (tenant, name) not in self._items]
        if missing:
            await self._load_items(fmt, tenant, missing)
        items: dict[bytes, Element] = {}
        for name, reference in found:
            item = self._items.get((tenant, name))
            if item is None:
                return conversation  # one that we do not hold: the list is not ours to reduce
            self._items.move_to_end((tenant, name))
            items[reference.raw] = self._read_as(tenant, reference, item)
        return with_references(conversation, items)

    def _read_as(self, tenant: str, reference: Element, item: Element) -> Element:
        """Always the same element: what is derived from elements is cached by them."""
        key = (tenant, reference.raw)
        known = self._named.get(key)
        if known is None or known.hash != item.hash:
            known = self._named[key] = named_by(reference, item)
            while len(self._named) > 16 * HISTORIES_KEPT:
                self._named.popitem(last=False)
        return known

    def _keep(self, tenant: str, name: str, item: Element) -> None:
        old = self._items.pop((tenant, name), None)
        self._items[(tenant, name)] = item
        self._item_bytes += len(item.raw) - (len(old.raw) if old is not None else 0)
        while self._item_bytes > ITEM_BYTES and len(self._items) > 1:
            self._item_bytes -= len(self._items.popitem(last=False)[1].raw)

    async def _load_items(self, fmt: WireFormat, tenant: str, names: Sequence[str]) -> None:
        for row in await self._branches(tenant, names[-_NAMES_LOOKED_UP:]):
            stored = [item for item in await self._stored(row) if _step(item).is_emitted]
            for element in await self._elements(fmt, stored) or ():
                if name := provider_id(element.raw):
                    self._keep(tenant, name, element)

    # -- previous responses ------------------------------------------------------------------------

    async def _history(self, fmt: WireFormat, tenant: str, response: str) -> History | None:
        known = self._histories.get((tenant, response))
        if known is not None:
            self._histories.move_to_end((tenant, response))
            return known
        key = hash_response(response)
        for row in await self._branches(tenant, (response,)):
            if await self._is_deleted(tenant, key):
                return None
            stored = await self._stored(row)
            last = max((i for i, item in enumerate(stored) if key in _names(_step(item))), default=-1)
            elements = await self._elements(fmt, stored[: last + 1]) if last >= 0 else None
            if elements:
                state = decode_state(row.state)
                # Blocks that come and go are not in the path: whether some stood here cannot be told any more.
                history = History(elements, not (state.is_partial or state.kinds))
                for name, kept_as in state.kept_as.items():
                    self._kept_as_last(tenant, name, kept_as)
                self._histories[(tenant, response)] = history
                return history
        return None

    # -- the store ---------------------------------------------------------------------------------

    async def _branches(self, tenant: str, names: Sequence[str]) -> list[BranchRow]:
        try:
            return await self._store.find_branches(tenant, [("response", hash_response(name)) for name in names], "")
        except StoreError as error:
            log.warning("chain_not_loaded", error=str(error))
            return []

    async def _stored(self, row: BranchRow) -> list[StoredItem]:
        try:
            ids = await self._store.path(row.path) if row.path else ()
            items = await self._store.items(row.conversation, ids)
        except StoreError as error:
            log.warning("chain_not_loaded", error=str(error))
            return []
        return items if len(items) == len(ids) and all(item.row.atoms for item in items) else []

    async def _elements(self, fmt: WireFormat, stored: Sequence[StoredItem]) -> tuple[Element, ...] | None:
        """The items as they were stored, whole; None when one of them cannot be had."""
        elements = []
        try:
            for item in stored:
                raw = await self._store.body(item.row.body)
                if raw is None:
                    return None
                element = fmt.read_element(raw)
                if element.hash != _step(item).hash:
                    return None  # it came in the other wire format, and says something else in this one
                elements.append(element)
        except (StoreError, NotUnderstoodError) as error:
            log.warning("chain_not_loaded", error=str(error))
            return None
        return tuple(elements)


def _names(step: Step) -> tuple[bytes, bytes]:
    """What at the provider ends with this step."""
    return step.response, step.kept_in


def _step(item: StoredItem) -> Step:
    return decode_step(item.row.atoms)
