"""Turns a request and its branch's plan into the outgoing list: measure, decide, render. No I/O but counting."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from policies.contract import Policy, check
from policies.model import NOT_OFFERED, Budget, Form, Pressure, Prices, Selection
from proxy.core import forms
from proxy.core.grouping import CallSite, call_ordinals, groups, pair_results
from proxy.core.model import Conversation, Element, Frame
from proxy.core.records import BodyRow, Entry
from proxy.core.situation import Facts, Standing, build
from proxy.core.window import EMPTY, Mask, Plan, Slot, applicable, slots
from proxy.folding import FoldMaker, FoldSource
from proxy.tokenizer import Tokenizer
from proxy.wire.base import FrameEdits, Piece, WireFormat

MESSAGE_OVERHEAD = 4
"""Tokens a list element costs beyond its text."""
_FACTS_KEPT = 200_000


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """`mask_chars`: texts up to this length are never masked. `never_mask`: file name patterns."""

    mask_chars: int = 500
    never_mask: tuple[str, ...] = ()
    digest_chars: int = 8000


@dataclass(frozen=True, slots=True)
class Measured:
    """A request's items with their costs; lists are parallel to the conversation's elements."""

    conversation: str
    ids: tuple[str, ...]
    facts: tuple[Facts, ...]
    tokens: int  # of all items in full

    def new_tokens(self, known: Collection[str]) -> int:
        return sum(fact.tokens for fact in self.facts if fact.id not in known)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the model and the operator allow, in tokens of our own counting."""

    budget: Budget
    prices: Prices


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's answer, ready to render. `reason` says why the window changed, "" when it only grew."""

    plan: Plan
    slots: tuple[Slot, ...]
    reason: str
    memory: Mapping[str, float]
    tokens: int
    is_new_fold: bool = False


@dataclass(frozen=True, slots=True)
class Rendered:
    """The outgoing body and, for the manifest, each entry with the bytes that stand for it."""

    body: bytes
    frame: Frame
    entries: tuple[Entry, ...]
    bodies: tuple[BodyRow, ...]  # texts of our own making; the client's are stored with their items
    is_rewritten: bool


class WindowBuilder:
    """Stateless but for caches: the same request and plan give the same bytes."""

    def __init__(self, policy: Policy, tokenizer: Tokenizer, options: WindowOptions) -> None:
        self.policy = policy
        self._tokenizer = tokenizer
        self._options = options
        self._folds = FoldMaker(tokenizer, options.digest_chars)
        self._facts: OrderedDict[tuple[str, bytes], Facts] = OrderedDict()

    async def measure(self, conversation: Conversation, conversation_id: str, ids: Sequence[str]) -> Measured:
        """Count what is not known yet; large texts are counted off the event loop."""
        elements = conversation.elements
        missing = [
            (index, element)
            for index, (item, element) in enumerate(zip(ids, elements, strict=True))
            if (item, element.body_hash) not in self._facts
        ]
        if missing:
            counts = await self._tokenizer.count_async([element.text for _, element in missing])
            sites = pair_results(elements)
            for (index, element), count in zip(missing, counts, strict=True):
                fact = self._fact(element, ids[index], count, sites.get(index))
                self._facts[(fact.id, element.body_hash)] = fact
            while len(self._facts) > _FACTS_KEPT:
                self._facts.popitem(last=False)
        facts = tuple(self._facts[(item, e.body_hash)] for item, e in zip(ids, elements, strict=True))
        return Measured(conversation_id, tuple(ids), facts, sum(fact.tokens for fact in facts))

    def _fact(self, element: Element, item: str, count: int, site: CallSite | None) -> Facts:
        tokens = count + element.flat_tokens + MESSAGE_OVERHEAD
        if not element.texts:
            return Facts(id=item, tokens=tokens)
        tool = site.call.name if site is not None else ""
        argument = site.key_argument if site is not None else ""
        stubs: list[str | None] = []
        saved = 0
        for text in element.texts:
            stub = self._stub(text, item, tool, argument, element.is_failed)
            gain = self._tokenizer.count(text) - self._tokenizer.count(stub) if stub is not None else 0
            stubs.append(stub if gain > 0 else None)
            saved += max(0, gain)
        return Facts(
            id=item,
            tokens=tokens,
            stub_texts=tuple(stubs) if saved else (),
            stub_tokens=tokens - saved if saved else NOT_OFFERED,
            tool=tool,
            argument=argument,
            size_chars=sum(map(len, element.texts)),
        )

    def _stub(self, text: str, item: str, tool: str, argument: str, is_failed: bool) -> str | None:
        if len(text) <= self._options.mask_chars:
            return None
        return forms.stub(text, id=item, tool=tool, failed=is_failed, argument=argument)

    def decide(
        self,
        conversation: Conversation,
        measured: Measured,
        plan: Plan,
        seen: Collection[str],
        limits: Limits,
        *,
        pressure: Pressure | None = None,
        memory: Mapping[str, float],
        is_cold: bool = False,
    ) -> Decision:
        """Ask the policy and turn its answer into a plan. Raises `ContractError` when it breaks a rule."""
        plan = applicable(plan, measured.ids)
        elements = conversation.elements
        situation = build(
            elements,
            measured.facts,
            groups(elements),
            call_ordinals(elements),
            Standing(held=plan.held(), seen=seen, memory=memory, is_cold=is_cold),
            budget=limits.budget,
            prices=limits.prices,
            pressure=pressure,
            digest_tokens=self._tokenizer.count(plan.fold.text) + MESSAGE_OVERHEAD if plan.fold else 0,
            never_mask=self._options.never_mask,
        )
        selection = self.policy.select(situation)
        check(situation, selection)
        return self._decision(conversation, measured, plan, selection, limits.budget.room)

    def _decision(
        self, conversation: Conversation, measured: Measured, plan: Plan, selection: Selection, room: int
    ) -> Decision:
        masks = dict(plan.masks)
        covers: list[str] = []
        absent: set[str] = set()
        for choice, fact in zip(selection.choices, measured.facts, strict=True):
            if choice.form is Form.FOLDED:
                covers.append(choice.id)
                masks.pop(choice.id, None)
            elif choice.form is Form.ABSENT:
                absent.add(choice.id)
            elif choice.form is Form.FULL:
                masks.pop(choice.id, None)
            elif choice.id not in masks or masks[choice.id].form != choice.form:
                masks[choice.id] = Mask(int(choice.form), fact.stub_texts, choice.reason)
        source = FoldSource(measured.conversation, conversation.elements, measured.facts, room)
        fold = self._folds.make(source, plan.fold, tuple(covers), selection.reason)
        new_plan = Plan(masks=masks, fold=fold) if masks or fold else EMPTY
        out = slots(new_plan, measured.ids, frozenset(absent))
        tokens = sum(self._slot_tokens(slot, measured) for slot in out)
        is_new_fold = fold is not None and fold is not plan.fold
        return Decision(new_plan, tuple(out), selection.reason, selection.memory, tokens, is_new_fold)

    def _slot_tokens(self, slot: Slot, measured: Measured) -> int:
        if slot.index is None:
            return self._tokenizer.count(slot.note) + MESSAGE_OVERHEAD
        fact = measured.facts[slot.index]
        return fact.tokens if slot.form is Form.FULL else fact.stub_tokens

    def render(
        self, fmt: WireFormat, conversation: Conversation, measured: Measured, decision: Decision, edits: FrameEdits
    ) -> Rendered:
        """The outgoing bytes. An item in full goes out with the very bytes it came with."""
        pieces: list[Piece] = []
        entries: list[Entry] = []
        own: list[BodyRow] = []
        for slot in decision.slots:
            if slot.index is not None and slot.form is Form.FULL:
                element = conversation.elements[slot.index]
                raw, key = element.raw, element.body_hash
            else:
                if slot.index is None:
                    raw = fmt.note(slot.note)
                else:
                    raw = fmt.render(conversation.elements[slot.index], slot.texts)
                key = blake2b(raw, digest_size=16).digest()
                own.append(BodyRow(key, raw))
            pieces.append(Piece(raw, slot.index))
            entries.append(Entry(slot.item, int(slot.form), key, self._slot_tokens(slot, measured), slot.reason))
        frame = fmt.frame(conversation, pieces, edits)
        body = fmt.encode(conversation, pieces, edits)
        is_rewritten = bool(own) or len(pieces) != len(conversation.elements)
        return Rendered(body, frame, tuple(entries), tuple(own), is_rewritten)
