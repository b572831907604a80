"""What applications said of a conversation's items (pins, importance), as a running server sees it. Writes nothing."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from proxy.core.records import MarkRow
from proxy.errors import StoreError
from proxy.store.base import Store

log = structlog.get_logger()

PIN, IMPORTANCE = "pin", "importance"
EXPANDED = "expanded"
"""How often the model came back for an item: written by the proxy itself, to be read and exported."""
FRESH_S = 2.0
"""What was read is taken for true so long: the longest time until a mark that was set meanwhile counts."""
WAIT_S = 1.0
"""A store that takes longer is not waited for; what was known of it last goes on to hold."""
REST_S = 30.0
"""After such a wait it is left alone for a while."""
KEPT = 10_000
"""Conversations of which the marks are kept in memory."""


@dataclass(frozen=True, slots=True)
class Said:
    """Items that an application wants whole in every window, and what others are worth to it."""

    pinned: frozenset[str] = frozenset()
    importance: Mapping[str, float] = field(default_factory=dict)

    def importance_with(self, other: Mapping[str, float]) -> Mapping[str, float]:
        """The importance of items, with what is known of them besides."""
        if not self.importance or not other:
            return self.importance or other
        return {
            item: self.importance.get(item, 0.0) + other.get(item, 0.0) for item in (*self.importance, *other)
        }  # fmt: skip


NOTHING = Said()


def said_of(marks: Sequence[MarkRow]) -> Said:
    """What these marks say; a pin that was taken back is none."""
    return Said(
        frozenset(mark.item for mark in marks if mark.name == PIN and mark.value == "1"),
        {mark.item: float(mark.value) for mark in marks if mark.name == IMPORTANCE},
    )


class MarkBook:
    """Reads a conversation's marks when it is first met, and again once what was read is older than `FRESH_S`.

    So a busy conversation costs no read a request, and a mark counts two seconds after it was set at
    the latest. A request asks once and keeps what it was told through all its rounds and attempts.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: OrderedDict[str, tuple[Said, float]] = OrderedDict()

    async def of(self, conversation: str, *, is_new: bool = False) -> Said:
        """`is_new`: the conversation begins with this request, so that nobody can have said anything of it."""
        said, until = self._known.get(conversation, (NOTHING, 0.0))
        if self._clock() < until:
            return said
        rest = FRESH_S
        if not is_new:
            try:
                async with asyncio.timeout(WAIT_S):
                    read = said_of(await self._store.marks(conversation))
                said = said if read == said else read
            except (StoreError, TimeoutError) as error:
                rest = REST_S
                log.warning("marks_not_loaded", conversation=conversation, error=str(error) or "timeout")
        self._known[conversation] = said, self._clock() + rest
        self._known.move_to_end(conversation)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return said
