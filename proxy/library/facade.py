"""The library's front: a synchronous store of an agent's items that answers "what goes into so many tokens?".

Runs the proxy's own asynchronous store on a thread of its own. Safe to use from several threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from policies.registry import PolicyError
from policies.registry import build as build_policy
from proxy.config import load_config
from proxy.core.identity import forced_conversation
from proxy.core.records import Batch, LinkRow, LinkType, MarkRow, PlanRow
from proxy.core.slices import Slice, slice_lines, slice_query
from proxy.core.window import EMPTY, Plan, covering, decode_plan, encode_plan, plan_id
from proxy.errors import ConfigError, InputError, NotFoundError, StoreError
from proxy.library import checking
from proxy.library.asking import Ask, Asker
from proxy.library.reading import DEFAULT_NAME, Past, read_past, resolve
from proxy.library.window import Window
from proxy.library.writing import Addition, Ledger, add, has_won, is_current, summary_rows
from proxy.marks import IMPORTANCE, PIN
from proxy.store.base import Store
from proxy.store.open import is_postgres
from proxy.store.open import open_store as open_async_store
from proxy.tokenizer import Tokenizer
from proxy.views import fetch_item
from proxy.wire.registry import Registry

Kind = Literal["system", "developer", "user", "assistant", "message", "tool_result", "file_read"]
T = TypeVar("T")

TENANT = "library"
MAX_FOUND = 10_000
WRITE_TRIES = 50
CONTEXT_LINES = 2


def open_store(
    path: str | Path, *, policy: str = "selector", options: Mapping[str, object] | None = None
) -> ContextStore:
    """Open the store at `path` (a file, or a URL as the proxy takes it), and make it when it is not there.

    `policy` and its `options` are named as in the proxy's configuration. Raises `ConfigError` for a
    policy or an option that does not exist, `StoreError` for a file that is no store or not writable.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise ConfigError(f"db: {checking.shown(path)} names no file", hint='Give its path, such as "run-4411.db".')
    if not isinstance(policy, str):
        raise ConfigError(f"policy must be a name, not {checking.shown(policy)}", hint='Such as policy="selector".')
    try:
        chosen = build_policy(policy, options)
    except PolicyError as error:
        raise ConfigError(str(error)) from error
    # A database of several replicas is signed with the key that the servers on this machine use.
    key = Path(load_config(None, {"store.url": str(path)}).store.secret_file) if is_postgres(str(path)) else None
    return ContextStore(open_async_store(path, secret_file=key), Asker(chosen, Tokenizer()))


class ContextStore:
    """A store of conversations. Make one with `open_store`; close it, or use it in a `with` block.

    Ids are 12 characters, the same in the proxy, the shell and here. A conversation is named by a
    name of your own, by its id or by the start of that; None means your own conversation of this
    file, or, where you wrote none, its newest. Errors: `InputError` (also a ValueError) for an
    argument that cannot be meant, `NotFoundError` for ids and names that lead nowhere,
    `StoreError` when the database fails, `BudgetError` for a budget below what must stay.
    """

    def __init__(self, store: Store, asker: Asker) -> None:
        self._store = store
        self._asker = asker
        self._formats = Registry()
        self._ledgers: dict[str, Ledger] = {}
        self._lock = threading.RLock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="undercliff-store", daemon=True)
        self._thread.start()
        is_open = False
        try:
            self._run(store.open())
            is_open = True
        finally:
            if not is_open:
                self._stop()

    def __enter__(self) -> ContextStore:
        if self._loop.is_closed():
            raise _closed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is queued and close the file. Idempotent."""
        with self._lock:
            if not self._loop.is_closed():
                self._run(self._store.aclose())
                self._stop()

    # -- writing -----------------------------------------------------------------------------------

    def add(
        self,
        kind: Kind,
        body: str | Mapping[str, Any],
        *,
        pin: bool = False,
        source: str | None = None,
        importance: float = 0.0,
        links: Iterable[tuple[str, LinkType]] = (),
        tool: str | None = None,
        conversation: str | None = None,
    ) -> str:
        """Append an item; returns its id when it is safely on disk.

        `kind`: "system", "developer", "user" or "assistant" for a message with the text `body`;
        "tool_result" for what a call returned (`source`: what it was asked, `tool`: its name);
        "file_read" for a file's content (`source`: its path, kept with a hash of the content, so
        that a later read or edit makes it stale); "message" for a whole Chat Completions message as a
        mapping, such as an assistant message with tool calls. Results get the call that they answer
        written before them. `pin`: in every window, whole. `importance`: 0 is usual; 1 is worth about
        as much as an item can earn by itself, negative values less than nothing. `links`: pairs of an
        item's id and a type, from this item to that one.
        """
        addition = checking.addition(
            kind, body, pin=pin, source=source, importance=importance, links=links, tool=tool
        )  # fmt: skip
        name = checking.conversation(conversation) or DEFAULT_NAME
        with self._lock:
            return self._run(self._add(addition, name))

    def link(self, a: str, b: str, type: LinkType) -> None:
        """Say that item `a` draws on item `b`: "cites", "derived_from", "replies_to" or "summarizes"."""
        checking.link_type(type)
        if checking.item_id(a) == checking.item_id(b):
            raise InputError(f"an item cannot draw on itself: {a}", hint="Give two different ids.")
        with self._lock:
            self._run(self._link(a, b, type))

    def pin(self, id: str) -> None:
        """Keep an item in every window from now on, whole."""
        self._mark(id, PIN, "1")

    def unpin(self, id: str) -> None:
        """Take back a pin. System messages and the first user message stay all the same."""
        self._mark(id, PIN, "0")

    def importance(self, id: str, value: float) -> None:
        """Set an item's importance; see `add`."""
        self._mark(id, IMPORTANCE, repr(checking.number("importance", value)))

    # -- asking ------------------------------------------------------------------------------------

    def context_get(
        self, budget: int, *, model: str, query: str | None = None, conversation: str | None = None,
        remember: bool = True,
    ) -> Window:  # fmt: skip
        """The most useful messages that fit `budget` tokens of `model`, in order and ready to send.

        The budget is for the messages alone: take off what tools and the reply need. It is kept by
        the provider's own count. `query`: words that count more, taken literally. The next ask with the
        same budget, model and query starts from this window, so that it is the same and what is new
        (kind to a prompt cache) until it is full; with `remember=False` nothing is kept of it.
        Raises `BudgetError` when pins and the newest exchange do not fit.
        """
        checking.budget(budget)
        checking.model(model)
        words, name = checking.query(query), checking.conversation(conversation)
        with self._lock:
            return self._run(self._context(budget, model, words, name, remember))

    def expand(
        self,
        id: str,
        lines: str | tuple[int, int] | None = None,
        query: str | None = None,
        context: int = CONTEXT_LINES,
    ) -> str:
        """The original text behind an id: whole, or `lines` ("10-40", (10, 40); counted from 1), or those with `query`.

        `query` is literal, in any case, and comes with `context` lines around each match; parts that
        do not touch are parted by a line with "…". What lies outside the text is left away.
        """
        span, words = checking.span(lines), checking.query(query)
        if span is not None and query is not None:
            raise InputError("give lines or query, not both")
        if query is not None and not words:
            raise InputError("query must hold at least one character, not ''", hint="Leave it away for the whole text.")
        checking.whole_number("context", context, 0)
        with self._lock:
            text = self._run(fetch_item(self._store, checking.item_id(id))).text
        if span is not None:
            return _said(slice_lines(text, *span))
        return _said(slice_query(text, words, context)) if words else text

    def search(self, query: str, *, conversation: str | None = None, limit: int = 20) -> list[tuple[str, float]]:
        """Ids of items whose text holds the words of `query`, literally, with a relevance from 1 down to 0."""
        words, name = checking.query(query), checking.conversation(conversation)
        checking.whole_number("limit", limit, 1)
        with self._lock:
            return self._run(self._search(words, name, min(limit, MAX_FOUND)))

    def model_of(self, conversation: str | None = None) -> str:
        """The model that a conversation last ran on; "" where no call was made."""
        name = checking.conversation(conversation)
        with self._lock:
            return self._run(self._model_of(name))

    # -- on the loop -------------------------------------------------------------------------------

    async def _add(self, addition: Addition, name: str) -> str:
        """Several processes may write one conversation: who finds that another was first begins again behind it."""
        for _ in range(WRITE_TRIES):
            ledger = self._ledgers.pop(name, None)  # should this fail, what is on disk is the truth: it is read again
            if ledger is None or not await is_current(self._store, ledger):
                ledger = await self._ledger(name)
            await self._check_links(ledger, addition)
            id = await add(self._store, self._formats.chat, ledger, addition)
            if await has_won(self._store, ledger, id):
                self._ledgers[name] = ledger
                return id
        raise StoreError(
            f"conversation {name!r} is written by others all the time: nothing was added in {WRITE_TRIES} tries",
            hint="Give each writer a conversation of its own.",
        )

    async def _check_links(self, ledger: Ledger, addition: Addition) -> None:
        for other, _ in addition.links:
            if not await self._store.items(ledger.id, [other]):
                raise NotFoundError(
                    f"there is no item {checking.shown(other)} in this conversation to link to",
                    hint="Links go to items that were added before; add returned their ids.",
                )

    async def _ledger(self, name: str) -> Ledger:
        own = forced_conversation(TENANT, name)
        try:
            known = await resolve(self._store, TENANT, name)
        except NotFoundError:
            return Ledger.empty(TENANT, name)
        past = await read_past(self._store, self._formats, known if known != own else own)
        return Ledger.of(TENANT, name, past)

    async def _link(self, a: str, b: str, type: LinkType) -> None:
        conversation = await self._conversation_of(a)
        if not await self._store.items(conversation, [b]):
            raise NotFoundError(
                f"there is no item {checking.shown(b)} in the conversation of {a!r}",
                hint="Links stay in one conversation.",
            )
        await self._store.submit(Batch(links=(LinkRow(conversation, a, b, type),)))

    def _mark(self, id: str, name: str, value: str) -> None:
        async def write() -> None:
            conversation = await self._conversation_of(checking.item_id(id))
            await self._store.submit(Batch(marks=(MarkRow(conversation, id, name, value),)))

        with self._lock:
            self._run(write())

    async def _conversation_of(self, id: str) -> str:
        rows = await self._store.find_item(checking.item_id(id))
        if not rows:
            raise NotFoundError(
                f"there is no item {checking.shown(id)}", hint="Ids stand in manifests, stubs and undercliff show."
            )
        return rows[0].conversation

    async def _context(self, budget: int, model: str, query: str, name: str | None, remember: bool) -> Window:
        past = await read_past(self._store, self._formats, await resolve(self._store, TENANT, name))
        key = f"plan:{blake2b(repr((budget, model, query)).encode(), digest_size=12).hexdigest()}"
        plan = await self._plan(past, key) if remember else EMPTY
        ratio = await self._ratio(model)
        answer = await self._asker.answer(past, Ask(budget, model, query, ratio), plan)
        if remember and answer.plan != plan:
            await self._keep_plan(past, key, answer.plan)
        return answer.window

    async def _plan(self, past: Past, key: str) -> Plan:
        row = await self._store.plan(past.plans.get(key, "")) if past.plans.get(key) else None
        if row is None:
            return EMPTY
        plan = decode_plan(row.data)
        return covering(plan, await self._store.coverage(past.id, plan.fold.item)) if plan.fold is not None else plan

    async def _keep_plan(self, past: Past, key: str, plan: Plan) -> None:
        data = encode_plan(plan)
        row = PlanRow(plan_id(past.branch.id, data), past.branch.id, data)
        summary = summary_rows(past, plan.fold) if plan.fold is not None else Batch()
        await self._store.submit(replace(summary, plans=(row,), marks=(MarkRow(past.id, "", key, row.id),)))

    async def _ratio(self, model: str) -> float:
        """Billed per counted tokens of a model, as bills have shown; the highest of several upstreams."""
        rows = await self._store.learned()
        return max([row.value for row in rows if row.name == "ratio" and row.model == model], default=1.0)

    async def _model_of(self, name: str | None) -> str:
        id = await resolve(self._store, TENANT, name)
        known = await self._store.conversations(limit=1_000_000)
        return next((one.model for one in known if one.id == id), "")

    async def _search(self, query: str, name: str | None, limit: int) -> list[tuple[str, float]]:
        conversation = await resolve(self._store, TENANT, name) if name is not None else None
        found = await self._store.search(query, conversation=conversation, limit=limit)
        return [(item.row.id, relevance) for item, relevance in found]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise _closed()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _closed() -> InputError:
    return InputError("this store is closed", hint="Open it again with open_store.")


def _said(found: Slice) -> str:
    return "\n…\n".join("\n".join(span.lines) for span in found.spans)
