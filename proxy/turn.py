"""One request placed, decided and rendered: from a decoded conversation to outgoing bytes and their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ParamSpec, TypeVar

import structlog

from policies.contract import ContractError
from policies.ledger import RENT
from policies.model import Budget, Pressure
from proxy.config.sections import ExpandConfig
from proxy.core.branches import Placement
from proxy.core.hidden import continued
from proxy.core.identity import Numbered, Probe, Step, item_ids, number_items, probe
from proxy.core.model import Conversation, Element
from proxy.core.overflow import Overflow
from proxy.core.receipts import Key
from proxy.core.recent import answered, of_this_turn
from proxy.core.thresholds import TARGET_SHARE
from proxy.counting import Count, could_decide
from proxy.folding import Folded
from proxy.live import Live, LiveBranches
from proxy.marks import NOTHING, MarkBook, Said
from proxy.measuring import INLINE_ITEMS
from proxy.models import ModelBook
from proxy.offering import Offer, Offering
from proxy.pressing import expected, is_cold, output_room, pressure_on, towards
from proxy.recording import Served
from proxy.summaries.book import SummaryBook
from proxy.telling import Telling
from proxy.tokenizer import Tokenizer
from proxy.turn_state import Asked, Turn, whole
from proxy.windows import Decision, Limits, Prior, WindowBuilder
from proxy.wire.base import FrameEdits, WireFormat

__all__ = ["Asked", "Turn", "Turns", "ahead_of", "whole"]

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger()

HEAVY_BYTES = 2 * 1024 * 1024
LONG_BYTES = 128 * 1024
"""A list of more bytes is joined and hashed off the event loop."""

GAIN = 0.03
"""A compaction that saves a smaller share of the window than this is not worth its cache break."""
MIN_COMPACT_THRESHOLD = 1000
"""No provider takes a smaller one."""
PREPARE_SHARE = 0.85
"""Summaries are written ahead once a bill is this near to the threshold, or the rent to being due."""


class Turns:
    """Makes turns. Touches branches in memory, reads the store through them, writes nothing."""

    def __init__(
        self,
        live: LiveBranches,
        builder: WindowBuilder,
        models: ModelBook,
        tokenizer: Tokenizer,
        *,
        asks_usage: bool = True,
        target_share: float = TARGET_SHARE,
        margin_share: float = 0.0,
        has_kept_compacted: bool = False,
        expand: ExpandConfig | None = None,
        book: SummaryBook | None = None,
        marks: MarkBook | None = None,
    ) -> None:
        self._live = live
        self._marks = marks
        self._builder = builder
        self._models = models
        self._tokenizer = tokenizer
        self._asks_usage = asks_usage
        self._target_share = target_share
        self._margin_share = margin_share
        self._has_kept_compacted = has_kept_compacted
        self._telling = Telling(builder, book)
        self._offering = Offering(expand or ExpandConfig(enabled=False), tokenizer)

    @property
    def policy_name(self) -> str:
        return self._builder.policy.name

    async def begin(
        self,
        fmt: WireFormat,
        conversation: Conversation,
        tenant: str,
        exchange: str,
        original: Conversation | None = None,
        count: Count | None = None,
    ) -> Turn:
        """Place the request and choose its window. Raises `ContractError` when the policy breaks a rule.

        `original`: what came, where it names a previous response and `conversation` has what stands behind it.
        """
        # Behind a response every item counts as body: only the list's own beginning is its head.
        listing = await self._builder.listing(conversation)
        if original is None:
            request = probe(conversation, tenant, listing.path)
        else:
            request = probe(replace(original, head=0), tenant)
        placement, live, fresh = await self._live.place(request, discriminator=exchange)
        if original is not None and placement.inherited:
            request = probe(conversation, tenant, listing.path)
        elif original is not None:  # the branch is not known any more
            conversation, original = original, None
        turn: Turn | None = None
        try:
            turn = await self._make(fmt, conversation, exchange, request, placement, live, fresh, original, count)
        finally:
            if turn is None:  # stopped or failed: nothing goes upstream under this placement
                self._live.leave(live)
        return turn

    async def _make(
        self,
        fmt: WireFormat,
        conversation: Conversation,
        exchange: str,
        request: Probe,
        placement: Placement,
        live: Live,
        fresh: tuple[Key, ...],
        original: Conversation | None,
        count: Count | None,
    ) -> Turn:
        unseen = placement.path.steps[: placement.inherited] if original is None else ()
        ids: Sequence[str]
        if unseen:
            ids = item_ids(placement.conversation, conversation.elements, before=unseen)
        else:
            live.numbered = await self._numbered(placement.conversation, conversation, live.numbered)
            ids = live.numbered.ids
        prior = live.prior
        is_managed = not (
            placement.kind == "side" or live.state.is_suspended or placement.is_unresolved or conversation.is_opaque
        )
        own, own_ids = conversation, ids
        if is_managed or conversation.wire == "responses":  # there, reasoning may not stand without its call
            conversation, ids = live.restored(fmt, own, ids) or (own, ids)
        measured = await self._builder.measure(conversation, placement.conversation, ids, prior)
        is_own = conversation is own
        asked = None if is_own else Asked(own, measured.part(own_ids, await self._builder.listing(own)))
        tools_tokens = (await self._tokenizer.count_async([conversation.tools.decode("utf-8", "replace")]))[0]
        knows_usage = conversation.wants_usage
        turn = Turn(
            exchange=exchange,
            fmt=fmt,
            conversation=conversation,
            probe=request,
            placement=placement,
            live=live,
            fresh_keys=fresh,
            measured=measured,
            limits=self._models.limits(conversation.model),
            decision=None if is_managed else whole(measured),  # type: ignore[arg-type]  # set below
            rendered=None,  # type: ignore[arg-type]  # set below, before anyone can see it
            base=live.served,
            began_under=live.plan_id,
            tools_tokens=tools_tokens if conversation.has_tools else 0,
            edits=FrameEdits(ask_usage=self._asks_usage and not (knows_usage or self._models.refuses_usage)),
            original=original,
            count=count,
            prior=prior,
            asked=asked,
            is_managed=is_managed,
            said=await self._said(placement, request) if is_managed else NOTHING,
        )
        live.state.is_partial = live.state.is_partial or conversation.is_partial or not conversation.is_stored
        if turn.is_managed:
            turn.decision = await self._decide(turn)
        elif self._has_kept_compacted and conversation.is_kept and not live.state.is_suspended:
            marks = turn.limits.thresholds
            turn.edits = replace(turn.edits, compact_threshold=max(MIN_COMPACT_THRESHOLD, int(marks.compact_at)))
        if measured.is_large or measured.listing.size_bytes > HEAVY_BYTES:
            await self._tokenizer.run(self._draw, turn)
            self._live.keep(live, turn.left)
        else:
            self._render(turn)
        return turn

    async def _said(self, placement: Placement, request: Probe) -> Said:
        if self._marks is None:
            return NOTHING
        is_new = placement.verdict == "new" and not request.hints.forced
        return await self._marks.of(placement.conversation, is_new=is_new)

    async def _numbered(self, name: str, conversation: Conversation, known: Numbered | None) -> Numbered:
        count = len(known.ids) if known is not None else 0
        if len(conversation.elements) - count <= INLINE_ITEMS:
            return number_items(name, conversation.elements, known)
        return await self._tokenizer.run(number_items, name, conversation.elements, known)

    async def continued(
        self,
        turn: Turn,
        elements: Sequence[Element],
        ids: Sequence[str],
        hidden: Sequence[str],
        exchange: str,
        *,
        is_last: bool,
    ) -> Turn:
        """The next round of a reply: the same request, and behind it what was said and answered unseen.

        `is_last`: no tool may be called any more.
        """
        live = turn.live
        asked = turn.own
        conversation = continued(turn.conversation, elements, hidden)
        measured = await self._builder.measure(
            conversation, turn.placement.conversation, (*turn.measured.ids, *ids), live.prior
        )
        again = replace(
            turn,
            exchange=exchange,
            conversation=conversation,
            measured=measured,
            asked=asked,
            base=live.served,
            before=turn.before or turn.base,
            began_under=live.plan_id,
            prior=live.prior,
            rows=None,
            attempt=0,
            edits=replace(turn.edits, forbid_calls=is_last),
        )
        again.decision = await self._decide(again) if turn.is_managed else whole(measured)
        self._render(again)
        return again

    async def _decide(self, turn: Turn) -> Decision:
        calm = await self._off_loop(turn, self._ask, turn, None)
        pressure = pressure_on(turn, calm, await self._figure(turn, calm))
        pressed = await self._off_loop(turn, self._relieved, turn, calm, pressure) if pressure is not None else None
        chosen = pressed or calm
        if self._telling.is_by_rules or chosen.folded is None:
            return chosen
        decision, turn.deferred = await self._telling.tell(
            chosen,
            turn.conversation,
            turn.measured,
            turn.live,
            calm=calm,
            must_shrink=expected(turn, whole(turn.measured)) >= turn.limits.thresholds.guard,
        )
        return decision

    async def _off_loop(self, turn: Turn, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do what goes over all items, or may make a fold of them, where it does not hold the event loop."""
        if turn.measured.is_large or turn.measured.listing.size_bytes > LONG_BYTES:
            return await self._tokenizer.run(work, *args, **kwargs)
        return work(*args, **kwargs)

    async def foresee(self, turn: Turn) -> Folded | None:
        """The fold that is near after this reply, as far as it can be told by now; None while none is."""
        state, marks = turn.live.state, turn.limits.thresholds
        pressure, memory = None, None
        if state.input >= PREPARE_SHARE * marks.compact_at:
            pressure = towards(turn, "threshold", marks.target, state.input)
        elif rent := state.memory.get(RENT):
            memory = {**state.memory, RENT: rent / PREPARE_SHARE}
        else:
            return None
        return (await self._off_loop(turn, self._ask, turn, pressure, memory)).folded

    def _relieved(self, turn: Turn, calm: Decision, pressure: Pressure) -> Decision | None:
        """The decision under pressure, or None when it would not help; that is remembered."""
        pressed = self._ask(turn, pressure)
        if pressed.tokens > (1 - GAIN) * calm.tokens:
            turn.live.state.futile_at = calm.tokens
            log.warning(
                "compaction_ineffective",
                conversation=turn.placement.conversation,
                pressure=pressure.kind,
                figure=pressure.figure,
                target=pressure.target,
                tokens=calm.tokens,
            )
            return None
        turn.live.state.futile_at = 0
        return pressed

    def _ask(self, turn: Turn, pressure: Pressure | None, memory: Mapping[str, float] | None = None) -> Decision:
        live, limits = turn.live, turn.limits
        beyond = max(0, limits.facts.window - limits.thresholds.boundary)  # a price cliff counts input alone
        reply = max(0, limits.reply_allowance(turn.conversation.max_output) - beyond)
        ceiling, reply = limits.counted(limits.thresholds.boundary), limits.counted(reply)
        budget = Budget(ceiling, int(self._margin_share * ceiling), tools=turn.tools_tokens, reply=reply)
        return self._builder.decide(
            turn.conversation,
            turn.measured,
            live.plan,
            live.seen | answered(turn.conversation, turn.measured.ids)
            if pressure is not None and pressure.kind == "overflow"
            else live.seen,
            Limits(budget, limits.facts.ratios),
            pressure=pressure,
            memory=live.state.memory if memory is None else memory,
            pinned=of_this_turn(turn.conversation, turn.measured.ids) | turn.said.pinned,
            importance=turn.said.importance_with(live.state.importance),
            is_cold=is_cold(turn),
            free_from=turn.free_from,
            prior=turn.prior,
        )

    async def _figure(self, turn: Turn, calm: Decision) -> int:
        """What this request would be billed; the provider is asked where the error of our count could decide."""
        figure, state, limits = expected(turn, calm), turn.live.state, turn.limits
        new = limits.billed(turn.measured.new_tokens(turn.live.seen)) if state.input else figure
        if turn.count is None or not (state.calls and could_decide(figure, new, limits.thresholds.guard)):
            return figure
        edits = replace(turn.edits, tool=self._offer(turn, calm).definition)
        drawn = self._builder.render(turn.fmt, turn.conversation, turn.measured, calm, edits, turn.prior)
        return await turn.count(drawn.body) or figure

    def _render(self, turn: Turn) -> None:
        self._draw(turn)
        self._live.keep(turn.live, turn.left)

    def _offer(self, turn: Turn, decision: Decision) -> Offer:
        conversation, tenant, before = turn.conversation, turn.probe.tenant, turn.live.state.expand
        return self._offering.offer(
            turn.fmt, conversation, decision.slots, tenant=tenant, before=before, is_managed=turn.is_managed
        )

    def _draw(self, turn: Turn) -> None:
        """Make the outgoing bytes. Touches nothing but the turn."""
        offer = self._offer(turn, turn.decision)
        turn.tool, turn.tool_tokens = offer.name, offer.tokens
        if turn.edits.tool != offer.definition:
            turn.edits = replace(turn.edits, tool=offer.definition)
        turn.attempt += 1
        turn.window = f"{turn.exchange}-{turn.attempt}"
        turn.rendered = self._builder.render(
            turn.fmt, turn.conversation, turn.measured, turn.decision, turn.edits, turn.prior
        )
        turn.left = Prior(turn.measured, turn.decision, turn.rendered)
        if turn.original is not None and not (turn.is_managed and turn.rendered.is_rewritten):
            self._render_original(turn, turn.original)
        if turn.edits.compact_threshold is not None:  # a field of ours that the provider may refuse
            turn.rendered = replace(turn.rendered, is_rewritten=True)

    def _render_original(self, turn: Turn, original: Conversation) -> None:
        """The request that names what stands behind it, as it came: nothing of that is to be made smaller."""
        own = len(turn.conversation.elements) - len(original.elements)
        facts = turn.measured.facts[own:]
        measured = replace(
            turn.measured, ids=turn.measured.ids[own:], facts=facts, tokens=sum(fact.tokens for fact in facts)
        )
        turn.rendered = self._builder.render(turn.fmt, original, measured, whole(measured), turn.edits)
        turn.base = Served("", 0, turn.base.entries)  # this list does not go on from the last one

    # -- a second attempt ----------------------------------------------------------------------

    async def shrink(self, turn: Turn, overflow: Overflow) -> bool:
        """Make the one smaller request that answers an overflow; False when there is none."""
        limits = turn.limits
        if turn.conversation.is_opaque:
            return False
        if overflow.cause == "output" and overflow.limit and (room := output_room(turn, overflow)):
            turn.edits = replace(turn.edits, max_output=room)
            self._render(turn)
            return True
        if not turn.is_managed:
            return False
        boundary = overflow.limit or min(int(limits.thresholds.boundary), limits.billed(turn.estimate))
        # What the provider counted tells our own count's ratio better than any average.
        ratio = overflow.input or overflow.requested
        scale = turn.estimate / ratio if ratio and turn.estimate else 1 / limits.ratio
        target = int(boundary * self._target_share * scale) - turn.tools_tokens
        try:
            overflowed = Pressure("overflow", max(target, 0), overflow.requested or 0)
            pressed = await self._off_loop(turn, self._ask, turn, overflowed)
        except ContractError as error:
            log.warning("policy_bypassed", error=str(error))
            return False
        if pressed.tokens >= turn.decision.tokens:
            return False
        turn.decision = await self._telling.in_known_words(pressed)
        self._render(turn)
        return True

    def without_usage(self, turn: Turn) -> None:
        """The same request without the usage option, which this provider refuses."""
        turn.edits = replace(turn.edits, ask_usage=False)
        self._render(turn)

    def as_it_came(self, turn: Turn) -> None:
        """The client's own list."""
        if turn.asked is not None and turn.conversation.wire == "chat":
            turn.conversation, turn.measured, turn.asked = turn.asked.conversation, turn.asked.measured, None
        turn.decision = whole(turn.measured)
        turn.edits = replace(turn.edits, compact_threshold=None, forbid_calls=False)
        turn.is_managed = False
        self._render(turn)


def ahead_of(turn: Turn) -> list[Element | Step]:
    """What stands ahead of the reply, as identity numbers it."""
    return [*turn.conversation.elements[: turn.conversation.head], *turn.placement.path.steps]
