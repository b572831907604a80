"""Answers expand calls: finds the original in the request's own path, and never looks beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from policies.model import Form
from proxy.config.sections import ExpandConfig
from proxy.core.expanding import Ask, listing, piece
from proxy.core.kinds import kind_of
from proxy.core.model import Element
from proxy.errors import NotUnderstoodError, StoreError
from proxy.store.base import Store
from proxy.tokenizer import Tokenizer
from proxy.turn import Turn
from proxy.wire.asks import read_ask
from proxy.wire.base import HiddenCall

log = structlog.get_logger()

LIMIT_REACHED = "error: nothing more can be expanded in this reply; go on with what stands above"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one call. `item` is the item it came from, "" when nothing was returned."""

    text: str
    item: str = ""


class Expander:
    """Reads memory first: the client's list holds nearly every original. The store is asked for the rest."""

    def __init__(self, store: Store, tokenizer: Tokenizer, config: ExpandConfig) -> None:
        self._store = store
        self._tokenizer = tokenizer
        self.config = config

    async def answer(self, turn: Turn, calls: Sequence[HiddenCall], *, is_last: bool = False) -> list[Answer]:
        """One answer a call, in order. `is_last`: the model has asked often enough."""
        if is_last:
            return [Answer(LIMIT_REACHED) for _ in calls]
        shown = _shown(turn)
        answers: list[Answer] = []
        for call in calls:
            ask = read_ask(call.arguments)
            if ask.fault:
                answers.append(Answer(ask.fault))
            elif ask.key in shown:
                text = f"[id {ask.id} · already shown in full above, and still there; go on with it]"
                answers.append(Answer(text))
            else:
                answer = await self._find(turn, ask)
                if answer.item:
                    shown.add(ask.key)
                answers.append(answer)
        return answers

    async def _find(self, turn: Turn, ask: Ask) -> Answer:
        limit, count = self.config.max_tokens, self._tokenizer.count
        elements = dict(zip(turn.measured.ids, turn.conversation.elements, strict=True))
        element = elements.get(ask.id)
        if element is not None:
            return Answer(piece(ask, _text_of(element), self._title(turn, ask.id, element), limit, count), ask.id)
        covers = await self._covers(turn, ask.id)
        if covers:
            entries = [
                f"id {item} · {self._title(turn, item, elements[item])} · {len(_text_of(elements[item])):,} chars"
                for item in covers
                if item in elements
            ]
            return Answer(listing(ask.id, entries, limit, count), ask.id)
        stored = await self._stored(turn, ask.id)
        if stored is not None:
            return Answer(piece(ask, _text_of(stored), kind_of(stored).replace("_", " "), limit, count), ask.id)
        return Answer(f"error: no id {ask.id!r} in this conversation")

    def _title(self, turn: Turn, item: str, element: Element) -> str:
        fact = next((fact for fact in turn.measured.facts if fact.id == item), None)
        words = [kind_of(element).replace("_", " ")]
        if fact is not None and fact.tool:
            words = [fact.tool, *([fact.argument] if fact.argument else [])]
        return " ".join(words) + (" · failed" if element.is_failed else "")

    async def _covers(self, turn: Turn, item: str) -> tuple[str, ...]:
        """What a summary of this path stands for; only originals of the path count."""
        fold = turn.decision.plan.fold
        if fold is not None and fold.item == item:
            return fold.covers
        known = {*turn.measured.ids, *turn.live.path.items}
        try:
            covers = await self._store.coverage(turn.placement.conversation, item)
        except StoreError as error:
            log.warning("coverage_not_read", error=str(error))
            return ()
        return covers if covers and known.issuperset(covers) else ()

    async def _stored(self, turn: Turn, item: str) -> Element | None:
        """An item of the branch's path that this request does not carry any more."""
        if item not in turn.live.path.items:
            return None
        try:
            rows = await self._store.items(turn.placement.conversation, [item])
            body = await self._store.body(rows[0].row.body) if rows else None
            return turn.fmt.read_element(body) if body is not None else None
        except (StoreError, NotUnderstoodError) as error:
            log.warning("original_not_read", error=str(error))
            return None


def _text_of(element: Element) -> str:
    return "\n".join(element.texts) if element.texts else element.text


def _shown(turn: Turn) -> set[object]:
    """What earlier calls of this conversation were answered with and still stands in full in the window."""
    standing = {slot.item for slot in turn.decision.slots if slot.form is Form.FULL}
    asked: dict[str, Ask] = {}
    shown: set[object] = set()
    for item, element in zip(turn.measured.ids, turn.conversation.elements, strict=True):
        for call in element.calls:
            if call.name == turn.tool:
                asked[call.id] = read_ask(call.arguments)
        ask = asked.get(element.answers or "")
        is_full = item in turn.conversation.hidden and item in standing
        if ask is not None and is_full and not element.text.startswith(("error:", f"[id {ask.id} · already")):
            shown.add(ask.key)
    return shown
