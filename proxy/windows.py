"""Turns a request and its branch's plan into the outgoing list: measure, decide, render. No I/O but counting."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from policies.contract import Policy, check
from policies.model import Budget, Choice, Form, Pressure, Prices, Selection, Situation
from proxy.core.hashing import Hashed, sha256
from proxy.core.listing import Listing
from proxy.core.model import Conversation, Element, Frame
from proxy.core.offers import KeepRenderer, MakeMaker
from proxy.core.records import BodyRow, Entry
from proxy.core.situation import Facts, Held, Items, Standing, build, read_items
from proxy.core.window import EMPTY, Mask, Plan, Slot, applicable, slots
from proxy.folding import Folded, FoldMaker, FoldSource
from proxy.measuring import MESSAGE_OVERHEAD, Measured, Measurer
from proxy.tokenizer import Tokenizer
from proxy.wire.base import FrameEdits, Piece, WireFormat

REFITS = 3
"""A policy that fills the room by estimates is asked again at most so often."""
REFIT_SLACK = 8


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """`mask_chars`: texts up to this length are never masked. `never_mask`: file name patterns."""

    mask_chars: int = 500
    never_mask: tuple[str, ...] = ()
    digest_chars: int = 8000


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
    folded: Folded | None = None  # of a new fold: what its record needs
    items: Items | None = None
    carried: int = 0  # so many slots are those of the branch's prior decision
    under: Plan | None = None  # the plan that stood before it


@dataclass(frozen=True, slots=True)
class Rendered:
    """The outgoing body and, for the manifest, each entry with the bytes that stand for it."""

    body: bytes
    frame: Frame
    entries: tuple[Entry, ...]
    bodies: tuple[BodyRow, ...]  # texts of our own making; the client's are stored with their items
    is_rewritten: bool
    pieces: tuple[Piece, ...] = ()
    hashed: Hashed | None = None

    @property
    def out_hash(self) -> str:
        """SHA-256 of the body."""
        return self.hashed.hexdigest if self.hashed is not None else sha256(self.body, 0).hexdigest


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """What a branch's last request leaves to the next one: what stays as it was is not made again."""

    measured: Measured
    decision: Decision | None = None
    rendered: Rendered | None = None

    @property
    def size_bytes(self) -> int:
        """About what it keeps in memory: the items, and the body that went out."""
        return self.measured.size_bytes + (len(self.rendered.body) if self.rendered is not None else 0)


class WindowBuilder:
    """Stateless but for caches: the same request and plan give the same bytes.

    `makers` may offer excerpts (see `core.offers`); `render_keep` writes what a choice keeps of an item.
    """

    def __init__(
        self,
        policy: Policy,
        tokenizer: Tokenizer,
        options: WindowOptions,
        *,
        makers: Sequence[MakeMaker] = (),
        render_keep: KeepRenderer | None = None,
    ) -> None:
        self.policy = policy
        self._tokenizer = tokenizer
        self._options = options
        self._measurer = Measurer(tokenizer, mask_chars=options.mask_chars, makers=makers)
        self._render_keep = render_keep
        self._folds = FoldMaker(tokenizer, options.digest_chars, render_keep=render_keep)

    async def listing(self, conversation: Conversation) -> Listing:
        """What follows from the list alone."""
        return await self._measurer.listing(conversation)

    async def measure(
        self, conversation: Conversation, conversation_id: str, ids: Sequence[str], prior: Prior | None = None
    ) -> Measured:
        """The items with their costs."""
        last = prior.measured if prior is not None else None
        return await self._measurer.measure(conversation, conversation_id, ids, last)

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
        free_from: int | None = None,
        prior: Prior | None = None,
        pinned: Collection[str] = frozenset(),
        importance: Mapping[str, float] | None = None,
        query: str = "",
    ) -> Decision:
        """Ask the policy and turn its answer into a plan. Raises `ContractError` when it breaks a rule."""
        before = prior.decision if prior is not None else None
        plan = applicable(plan, measured.ids)
        reduced, held = self._held(measured, plan, before)
        standing = Standing(
            held=held,
            seen=seen,
            memory=memory,
            is_cold=is_cold,
            free_from=free_from,
            masks=reduced,
            kept=plan.kept(),
            stale=measured.stale,
            pinned=pinned,
            importance=importance or {},
            query=query,
        )
        known = before.items if before is not None else None
        items = read_items(measured.listing, measured.facts, standing, never_mask=self._options.never_mask, known=known)
        situation = build(
            items,
            standing,
            budget=limits.budget,
            prices=limits.prices,
            pressure=pressure,
            digest_tokens=sum(map(self._own_tokens, plan.fold.stand_ins(_sealed_for(conversation))))
            if plan.fold
            else 0,
        )
        decision = self._chosen(conversation, measured, plan, situation, before)
        return replace(decision, items=items, under=plan)

    def _chosen(
        self,
        conversation: Conversation,
        measured: Measured,
        plan: Plan,
        situation: Situation,
        before: Decision | None,
    ) -> Decision:
        """The policy's answer; asked again, with so much less room, while an estimate was short of what was counted."""
        room, pressure = situation.budget.room, situation.pressure
        most = min(room, pressure.target) if pressure is not None else room
        best: Decision | None = None
        for _ in range(1 + REFITS if getattr(self.policy, "fills_room", False) else 1):
            selection = self.policy.select(situation)
            check(situation, selection)
            decision = self._decision(conversation, measured, plan, selection, room, before)
            if best is not None and decision.tokens >= best.tokens:
                break
            best = decision
            over = decision.tokens - most + REFIT_SLACK
            if decision.tokens <= most or not decision.is_new_fold:
                break
            budget = replace(situation.budget, ceiling=max(0, situation.budget.ceiling - over))
            if (asked := situation.pressure) is not None:
                asked = replace(asked, target=max(0, asked.target - over))
            situation = replace(situation, budget=budget, pressure=asked)
        assert best is not None
        return best

    def _held(
        self, measured: Measured, plan: Plan, before: Decision | None
    ) -> tuple[Mapping[str, Held], Mapping[str, Form]]:
        """What the plan has made of single items, and the forms of all that it does not leave in full."""
        known = before.items if before is not None and before.under is plan else None
        if known is not None:
            return known.masks, known.survey.held
        return self._held_masks(measured, plan) if plan.masks else {}, plan.held()

    def _held_masks(self, measured: Measured, plan: Plan) -> dict[str, Held]:
        return {
            fact.id: Held(
                Form(mask.form),
                self._measurer.masked_tokens(fact, element, mask.texts),
                mask.kind,
                mask.bases,
            )
            for element, fact in zip(measured.listing.elements, measured.facts, strict=True)
            if (mask := plan.masks.get(fact.id)) is not None
        }

    def _decision(
        self,
        conversation: Conversation,
        measured: Measured,
        plan: Plan,
        selection: Selection,
        room: int,
        before: Decision | None,
    ) -> Decision:
        if selection.is_carried and not conversation.hidden:
            out, tokens, carried = self._carried(conversation, measured, plan, before)
            return Decision(plan, out, "", selection.memory, tokens, carried=carried)
        masks = dict(plan.masks)
        covers: list[str] = []
        keeps: dict[str, tuple[int, ...]] = {}
        absent: set[str] = set()
        for index, (choice, fact) in enumerate(zip(selection.choices, measured.facts, strict=True)):
            if choice.form is Form.FOLDED and choice.id in conversation.hidden:
                absent.add(choice.id)  # the fold stands for what the client sends; this goes where its anchor goes
                masks.pop(choice.id, None)
            elif choice.form is Form.FOLDED:
                covers.append(choice.id)
                masks.pop(choice.id, None)
                if choice.keep:
                    keeps[choice.id] = choice.keep
            elif choice.form is Form.ABSENT:
                absent.add(choice.id)
            elif choice.form is Form.FULL:
                if masks:
                    masks.pop(choice.id, None)
            elif not _stands(masks.get(choice.id), choice):
                masks[choice.id] = self._mask(conversation.elements[index], fact, choice)
        sealed_for = _sealed_for(conversation)
        source = FoldSource(measured.conversation, conversation.elements, measured.facts, room, keeps, sealed_for)
        folded = self._folds.make(source, plan.fold, tuple(covers), selection.reason)
        fold = folded.fold if folded is not None else None
        new_plan = Plan(masks=masks, fold=fold) if masks or fold else EMPTY
        if new_plan == plan:
            new_plan = plan
        carried = 0
        if absent:
            out = tuple(slots(new_plan, measured.ids, frozenset(absent), sealed_for=sealed_for))
            tokens = sum([self._slot_tokens(slot, conversation, measured) for slot in out])
        else:
            out, tokens, carried = self._carried(conversation, measured, new_plan, before)
        is_new_fold = fold is not None and fold is not plan.fold
        return Decision(
            new_plan,
            out,
            selection.reason,
            selection.memory,
            tokens,
            is_new_fold,
            folded if is_new_fold else None,
            carried=carried,
        )

    def _carried(
        self, conversation: Conversation, measured: Measured, plan: Plan, before: Decision | None
    ) -> tuple[tuple[Slot, ...], int, int]:
        """The slots of a plan, their tokens, and how many of them are those of the decision before."""
        is_same = before is not None and before.plan is plan and _has_seal_for(before, conversation)
        count = _carried(before, measured) if before is not None and is_same else 0
        if before is None or before.items is None or not count:
            out = tuple(slots(plan, measured.ids, sealed_for=_sealed_for(conversation)))
            return out, sum([self._slot_tokens(slot, conversation, measured) for slot in out]), 0
        start = len(before.items.facts)
        fresh = [Slot(index, item, Form.FULL) for index, item in enumerate(measured.ids[start:], start)]
        tokens = sum([fact.tokens for fact in measured.facts[start:]])
        return (*before.slots, *fresh), before.tokens + tokens, count

    def held(
        self, conversation: Conversation, measured: Measured, plan: Plan, absent: frozenset[str] = frozenset()
    ) -> Decision:
        """The window as the standing plan has it, whatever a policy would say."""
        plan = applicable(plan, measured.ids)
        out = tuple(slots(plan, measured.ids, absent, sealed_for=_sealed_for(conversation)))
        return Decision(plan, out, "", {}, sum(self._slot_tokens(slot, conversation, measured) for slot in out))

    def retold(self, decision: Decision, summaries: Mapping[str, str]) -> Decision:
        """The same decision, its new fold told in the words of these summaries (by segment)."""
        if decision.folded is None:
            return decision
        folded = self._folds.retell(decision.folded, summaries)
        fold = folded.fold
        old = [slot for slot in decision.slots if slot.index is None]
        new = fold.stand_ins(folded.source.sealed_for)
        place = decision.slots.index(old[0])
        out = (*decision.slots[:place], *new, *decision.slots[place + len(old) :])
        tokens = decision.tokens + sum(map(self._own_tokens, new)) - sum(map(self._own_tokens, old))
        plan = Plan(masks=decision.plan.masks, fold=fold)
        return replace(decision, plan=plan, slots=out, tokens=tokens, folded=folded)

    def _mask(self, element: Element, fact: Facts, choice: Choice) -> Mask:
        """The texts that stand for an item from now on: fixed at the moment of the choice."""
        form = int(choice.form)
        if choice.form is not Form.EXCERPT:
            return Mask(form, fact.stub_texts, choice.reason)
        if choice.keep and self._render_keep is not None and len(element.texts) == 1:
            text = self._render_keep(
                element.text,
                choice.keep,
                id=fact.id,
                tool=fact.tool,
                failed=element.is_failed,
                argument=fact.argument,
            )
            return Mask(form, (text,), choice.reason, "lines", (), choice.keep)
        return Mask(form, fact.excerpt_texts, choice.reason, fact.excerpt, fact.bases)

    def _slot_tokens(self, slot: Slot, conversation: Conversation, measured: Measured) -> int:
        if slot.index is None:
            return self._own_tokens(slot)
        fact = measured.facts[slot.index]
        if slot.form is Form.FULL:
            return fact.tokens
        return self._measurer.masked_tokens(fact, conversation.elements[slot.index], slot.texts)

    def _own_tokens(self, slot: Slot) -> int:
        return slot.tokens or self._tokenizer.count(slot.note) + MESSAGE_OVERHEAD

    def render(
        self,
        fmt: WireFormat,
        conversation: Conversation,
        measured: Measured,
        decision: Decision,
        edits: FrameEdits,
        prior: Prior | None = None,
    ) -> Rendered:
        """The outgoing bytes. An item in full goes out with the very bytes it came with."""
        pieces: list[Piece] = []
        entries: list[Entry] = []
        own: list[BodyRow] = []
        last = prior.rendered if prior is not None else None
        if last is not None and decision.carried and len(last.pieces) == decision.carried:
            pieces, entries, own = [*last.pieces], [*last.entries], [*last.bodies]
        elements = conversation.elements
        for slot in decision.slots[len(pieces) :]:
            if slot.index is not None and slot.form is Form.FULL:
                element = elements[slot.index]
                raw, key = element.raw, element.body_hash
            else:
                if slot.index is None:
                    raw = slot.raw or fmt.note(slot.note)
                else:
                    raw = fmt.render(elements[slot.index], slot.texts)
                key = blake2b(raw, digest_size=16).digest()
                own.append(BodyRow(key, raw))
            pieces.append(Piece(raw, slot.index))
            entries.append(
                Entry(slot.item, int(slot.form), key, self._slot_tokens(slot, conversation, measured), slot.reason)
            )
        frame = fmt.frame(conversation, pieces, edits)
        body = fmt.encode(conversation, pieces, edits, frame)
        is_rewritten = bool(own or conversation.hidden or edits.tool) or len(pieces) != len(elements)
        hashed = sha256(body, len(body) - len(frame.suffix), last.hashed if last is not None else None)
        return Rendered(body, frame, tuple(entries), tuple(own), is_rewritten, tuple(pieces), hashed)


def _carried(before: Decision, measured: Measured) -> int:
    """How many slots go on as they were: all of them, where the list only grew and nothing was left out."""
    items = before.items
    if items is None:
        return 0
    count = len(items.facts)
    # The very elements: a client may spell one anew, and its bytes go out as they came.
    if measured.facts[:count] != items.facts or measured.listing.elements[:count] != items.listing.elements:
        return 0
    covered = len(before.plan.fold.covers) if before.plan.fold is not None else 0
    own = sum(slot.index is None for slot in before.slots)
    return len(before.slots) if len(before.slots) == count - covered + own else 0


def _has_seal_for(before: Decision, conversation: Conversation) -> bool:
    """Does the fold stand there as this model and format have it?"""
    fold = before.plan.fold
    if fold is None or fold.compaction is None:
        return True
    return any(slot.raw for slot in before.slots) == (len(fold.stand_ins(_sealed_for(conversation))) > 1)


def _sealed_for(conversation: Conversation) -> str:
    """The model, where its list may hold what the provider has compacted: see `core.window.Compaction`."""
    return conversation.model if conversation.wire == "responses" else ""


def _stands(mask: Mask | None, choice: Choice) -> bool:
    """Is the choice what the plan holds already? A choice that names no segments carries on those that were kept."""
    return mask is not None and mask.form == choice.form and choice.keep in ((), mask.keep)
