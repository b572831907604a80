"""Tells a new fold in the words of the summaries that the store has, or puts it off while they are being written."""

from __future__ import annotations

from dataclasses import replace

from proxy.core.model import Conversation
from proxy.folding import Folded
from proxy.live import Live
from proxy.measuring import Measured
from proxy.summaries.book import SummaryBook
from proxy.windows import Decision, WindowBuilder


class Telling:
    """Without a book of summaries, folds stay as the rules tell them."""

    def __init__(self, builder: WindowBuilder, book: SummaryBook | None) -> None:
        self._builder = builder
        self._book = book

    @property
    def is_by_rules(self) -> bool:
        return self._book is None

    async def in_known_words(self, decision: Decision) -> Decision:
        """The decision, its new fold told by the summaries that are there by now; the rules tell the rest."""
        if self._book is None or decision.folded is None:
            return decision
        texts, _ = await self._book.known(decision.folded)
        return self._builder.retold(decision, texts) if texts else decision

    async def tell(
        self,
        decision: Decision,
        conversation: Conversation,
        measured: Measured,
        live: Live,
        *,
        calm: Decision,
        must_shrink: bool,
    ) -> tuple[Decision, Folded | None]:
        """The decision to go with, and the fold that was put off for want of summaries.

        Where the window must shrink now, the rules tell what no summary is there for.
        """
        folded = decision.folded
        if self._book is None or folded is None:
            return decision, None
        texts, is_whole = await self._book.of_fold(folded, measured.conversation)
        if not is_whole and not must_shrink:
            if calm.folded is None:
                return calm, folded
            absent = frozenset(live.state.absent)
            held = self._builder.held(conversation, measured, live.plan, absent)
            return replace(held, memory=live.state.memory), folded
        return (self._builder.retold(decision, texts) if texts else decision), None
