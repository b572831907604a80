"""The summaries that the store has, by segment and summarizer; and where work on missing ones is under way.

Only what is in the store counts, so every replica tells a fold in the same words.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

import structlog

from proxy.errors import StoreError
from proxy.folding import Beginning, Folded, Part, beginnings
from proxy.store.base import Store
from proxy.summaries.base import Summarizer

log = structlog.get_logger()

_KEPT = 5_000
MOST_OF_IT = 0.5
"""Share of a fold's items that a sealed beginning must stand for."""


class SummaryBook:
    """Texts by segment. `wait_s`: how long a turn waits for work that is under way for its conversation."""

    def __init__(self, store: Store, summarizer: Summarizer, *, wait_s: float = 1.0) -> None:
        self._store = store
        self._kind = f"{summarizer.name}\0{summarizer.version}"
        self._seals = summarizer.seals
        self._wait_s = wait_s
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._at_work: dict[str, asyncio.Event] = {}

    def key(self, segment: str) -> str:
        """What a segment's summary is kept under: its originals, the prompt's version, the summarizer."""
        return blake2b(f"{segment}\0{self._kind}".encode(), digest_size=16).hexdigest()

    async def find(self, segments: Iterable[str]) -> dict[str, str]:
        """The summaries that are there, by segment."""
        found: dict[str, str] = {}
        for segment in segments:
            text = await self._find(self.key(segment))
            if text:
                found[segment] = text
        return found

    async def _find(self, key: str) -> str:
        known = self._texts.get(key)
        if known is not None:
            return known
        try:
            row = await self._store.summary(key)
            data = await self._store.body(row.body) if row is not None else None
        except StoreError as error:
            log.warning("summaries_not_read", error=str(error))
            return ""
        if data is None:
            return ""
        text = data.decode("utf-8", "surrogatepass")
        self._texts[key] = text
        while len(self._texts) > _KEPT:
            self._texts.popitem(last=False)
        return text

    def units(self, folded: Folded) -> list[Part | Beginning]:
        """What of a fold is asked for by itself: its closed segments, or all of them at one stroke."""
        if self._seals:
            return list(beginnings(folded.source, folded.parts)[:1])
        return [part for part in folded.parts if part.segment]

    async def known(self, folded: Folded) -> tuple[dict[str, str], bool]:
        """The summaries of a fold that are there, and whether it can be told with them.

        Of a fold that has grown since, its longest beginning that is there is enough, where that is most of it.
        """
        if not self._seals:
            wanted = {unit.segment for unit in self.units(folded)}
            found = await self.find(wanted)
            return found, len(found) == len(wanted)
        closed = beginnings(folded.source, folded.parts)
        for start in closed:
            if found := await self.find([start.segment]):
                return found, MOST_OF_IT * len(folded.fold.covers) <= sum(len(part.ids) for part in start.parts)
        return {}, not closed

    async def of_fold(self, folded: Folded, conversation: str) -> tuple[dict[str, str], bool]:
        """As `known`, after a little wait for summaries that are being written."""
        found, is_whole = await self.known(folded)
        event = self._at_work.get(conversation)
        if not is_whole and event is not None:
            try:
                async with asyncio.timeout(self._wait_s):
                    await event.wait()
            except TimeoutError:
                log.info("summary_not_waited_for", conversation=conversation, waited_s=self._wait_s)
            return await self.known(folded)
        return found, is_whole

    def begin(self, conversation: str) -> bool:
        """Work on a conversation begins, unless it is under way already."""
        if conversation in self._at_work:
            return False
        self._at_work[conversation] = asyncio.Event()
        return True

    def end(self, conversation: str) -> None:
        self._at_work.pop(conversation).set()
