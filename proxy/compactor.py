"""Between turns: has the summaries written that the next fold will need, and trusts none that it has not looked at.

One attempt at a time for each conversation, in all processes. Nothing is flagged here: a fold is made
by a turn, from what the store has.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import structlog

from proxy.config import Config
from proxy.core.identity import item_id
from proxy.core.records import Batch, BodyRow, ClaimRow, SummaryCallRow, SummaryRow
from proxy.errors import StoreError
from proxy.folding import Beginning, Folded, FoldSource, Part, segment_items, segment_raws
from proxy.recording import now
from proxy.store.base import Store
from proxy.summaries.base import Caller, Draft, Material, Summarizer, SummarizerError
from proxy.summaries.book import SummaryBook
from proxy.summaries.checks import clean, fault
from proxy.turn import Turn, Turns

log = structlog.get_logger()

MOST_RETRY_S = 3600.0


@dataclass(frozen=True, slots=True)
class CompactorOptions:
    """`attempts`: drafts that are asked for before a segment is given up; `retry_s`: first pause after a failure."""

    deadline_s: float = 60.0
    attempts: int = 2
    retry_s: float = 60.0
    regrowth: float = 1.2


def options_of(config: Config) -> CompactorOptions:
    """What `[compaction]` says of drafts and pauses."""
    section = config.compaction
    return CompactorOptions(section.deadline_s, section.attempts, section.retry_s)


@dataclass(slots=True)
class _Trouble:
    """What went wrong for a conversation, and when it is tried again: after a pause, or after growth."""

    failures: int = 0
    until: float = 0.0
    above: int = 0  # billed input below which nothing is tried: good summaries were not to be had


@dataclass(slots=True)
class Counters:
    """What was asked of the summarizer since the start of this process."""

    asked: int = 0
    good: int = 0
    rejected: int = 0
    failed: int = 0
    given_up: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class Compactor:
    """Prepares summaries after a reply. Runs in the exchange's own task, once the client has its answer."""

    def __init__(
        self,
        summarizer: Summarizer,
        book: SummaryBook,
        store: Store,
        turns: Turns,
        options: CompactorOptions,
        *,
        counters: Counters | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._summarizer = summarizer
        self._book = book
        self._store = store
        self._turns = turns
        self._options = options
        self._clock = clock
        self._owner = secrets.token_hex(8)
        self._trouble: dict[str, _Trouble] = {}
        self.counters = counters or Counters()

    async def after(self, turn: Turn, caller: Caller) -> None:
        """A reply is complete: if the next turn will need summaries, have them written now."""
        conversation = turn.placement.conversation
        state = turn.live.state
        if not turn.is_managed or state.outcome != "ok" or self._is_pausing(conversation, state.input):
            return
        folded = turn.deferred or await self._turns.foresee(turn)
        if folded is None:
            return
        found, is_whole = await self._book.known(folded)
        missing = [] if is_whole else [unit for unit in self._book.units(folded) if unit.segment not in found]
        if not missing or not self._book.begin(conversation):
            return
        try:
            if await self._claim(conversation, len(missing)):
                try:
                    await self._work(turn, folded, missing, caller)
                finally:  # also where the server stops: nobody else should wait for a claim to end by itself
                    await self._give_back(conversation)
        finally:
            self._book.end(conversation)

    def _is_pausing(self, conversation: str, billed: int) -> bool:
        trouble = self._trouble.get(conversation)
        return trouble is not None and (self._clock() < trouble.until or billed < trouble.above)

    async def _claim(self, conversation: str, segments: int) -> bool:
        """Of several processes the first one works. A claim ends by itself, should its owner die."""
        at = self._clock()
        until = at + self._options.deadline_s * self._options.attempts * segments
        name = f"summaries:{conversation}"
        try:
            await self._store.submit(Batch(claims=(ClaimRow(name, self._owner, at, until),)))
            holder = await self._store.claim(name)
        except StoreError as error:
            log.warning("summaries_not_claimed", conversation=conversation, error=str(error))
            return False
        return holder is not None and holder[0] == self._owner

    async def _give_back(self, conversation: str) -> None:
        at = self._clock()
        try:
            await self._store.submit(Batch(claims=(ClaimRow(f"summaries:{conversation}", self._owner, at, at),)))
        except StoreError as error:
            log.warning("claim_not_given_back", conversation=conversation, error=str(error))

    async def _work(self, turn: Turn, folded: Folded, missing: list[Part | Beginning], caller: Caller) -> None:
        conversation = turn.placement.conversation
        for part in missing:
            if await self._segment(turn, folded.source, part, caller):
                continue
            trouble = self._trouble[conversation]
            log.warning(
                "summaries_given_up" if trouble.above else "summaries_paused",
                conversation=conversation,
                failures=trouble.failures,
                hint="the window goes on as it is, with masks only",
            )
            self.counters.given_up += 1
            return
        self._trouble.pop(conversation, None)

    async def _segment(self, turn: Turn, source: FoldSource, part: Part | Beginning, caller: Caller) -> bool:
        """One segment's summary into the store; False when there is none to be had now."""
        conversation = turn.placement.conversation
        material = Material(tuple(segment_items(source, part.span)), segment_raws(source, part.span))
        for _ in range(self._options.attempts):
            started = time.monotonic()
            draft, reason, retry_after = Draft(""), "", 0.0
            self.counters.asked += 1
            try:
                async with asyncio.timeout(self._options.deadline_s):
                    draft = await self._summarizer.summarize(material, caller)
            except TimeoutError:
                reason = f"no answer within {self._options.deadline_s:g} s"
            except SummarizerError as error:
                reason, retry_after = str(error), error.retry_after_s
            outcome = "failed" if reason else "ok"
            if not reason and (reason := fault(draft, material.chars)):
                outcome = "rejected"
            call = self._call_row(turn, part, draft, outcome, reason, time.monotonic() - started)
            await self._keep(turn, part, draft, material, call)
            if outcome == "ok":
                return True
            log.warning("summary_" + outcome, conversation=conversation, reason=reason)
            if outcome == "failed":
                trouble = self._trouble.setdefault(conversation, _Trouble())
                trouble.failures += 1
                pause = max(retry_after, self._options.retry_s * 2 ** (trouble.failures - 1))
                trouble.until = self._clock() + min(MOST_RETRY_S, pause)
                return False
        trouble = self._trouble.setdefault(conversation, _Trouble())
        trouble.failures += 1
        trouble.above = int(self._options.regrowth * turn.live.state.input)
        return False

    def _call_row(
        self, turn: Turn, part: Part | Beginning, draft: Draft, outcome: str, reason: str, took_s: float
    ) -> SummaryCallRow:
        usage = draft.usage
        self.counters.good += outcome == "ok"
        self.counters.rejected += outcome == "rejected"
        self.counters.failed += outcome == "failed"
        self.counters.input_tokens += usage.input if usage else 0
        self.counters.output_tokens += usage.output if usage else 0
        self.counters.cost += draft.cost or 0.0
        return SummaryCallRow(
            id=secrets.token_hex(12),
            conversation=turn.placement.conversation,
            branch=turn.placement.branch,
            key=self._book.key(part.segment),
            summarizer=self._summarizer.name,
            model=draft.model,
            outcome=outcome,
            reason=reason,
            input=usage.input if usage else 0,
            cached=usage.cached if usage else 0,
            output=usage.output if usage else 0,
            cost=draft.cost,
            duration_ms=round(took_s * 1000, 1),
            created_at=now(),
        )

    async def _keep(
        self, turn: Turn, part: Part | Beginning, draft: Draft, material: Material, call: SummaryCallRow
    ) -> None:
        """The call's row, and a good draft with what it covers, in one transaction. Writing one twice is harmless."""
        batch = Batch(summary_calls=(call,))
        if call.outcome == "ok":
            text = clean(draft.text).encode("utf-8", "surrogatepass")
            body = BodyRow(blake2b(text, digest_size=16).digest(), text)
            row = SummaryRow(
                key=call.key,
                conversation=call.conversation,
                item=item_id(call.conversation, bytes.fromhex(part.segment), 0),
                body=body.hash,
                summarizer=call.summarizer,
                covers=tuple(item.id for item in material.items),
                tokens=call.output or len(text) // 4,
                cost=call.cost,
                created_at=call.created_at,
            )
            batch = Batch(bodies=(body,), summaries=(row,), summary_calls=(call,))
        try:
            await self._store.submit(batch)
        except StoreError as error:
            log.warning("summary_not_stored", conversation=call.conversation, error=str(error))
