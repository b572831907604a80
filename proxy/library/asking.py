"""Makes the window that an application asks for, with the proxy's policies and forms, held to a budget. No store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from policies.contract import Policy
from policies.model import Budget, Choice, Form, Pressure, Prices, Selection, Situation
from policies.segments import split
from proxy.core.constraints import rules_note, unshown_rules
from proxy.core.model import Conversation, Element
from proxy.core.situation import Facts
from proxy.core.texts import clip, without_encoded
from proxy.core.tokens import PRIMING
from proxy.core.window import EMPTY, Plan, Slot
from proxy.errors import BudgetError
from proxy.library.reading import Past
from proxy.library.window import ManifestEntry, Place, Window, WindowManifest
from proxy.measuring import Measured
from proxy.readers import MAKERS, RENDER_KEEP
from proxy.tokenizer import Tokenizer
from proxy.windows import Decision, Limits, Prior, WindowBuilder, WindowOptions
from proxy.wire import compose

PER_MESSAGE = 4
PER_CALL = 8
"""What a provider's template adds to a message and to a call in it."""
MARGIN = 0.01
"""Share of a budget kept free: another vocabulary's counts differ a little."""
TRIES = 8
PREVIEW_CHARS = 100
KEPT = 8
"""Conversations of which it is kept what was measured."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A budget in the model's own tokens, for messages alone. `ratio` is billed per counted tokens."""

    budget: int
    model: str
    query: str = ""
    ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The window, and the plan that it was made under: the next one starts from it."""

    window: Window
    plan: Plan


class Watched:
    """A policy whose last selection can be looked at."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.last: tuple[Choice, ...] = ()

    def select(self, situation: Situation) -> Selection:
        made = self._policy.select(situation)
        self.last = tuple(made.choices)
        return made


class Asker:
    """Answers asks about any conversation. Keeps nothing of them but caches."""

    def __init__(self, policy: Policy, tokenizer: Tokenizer) -> None:
        self._policy = Watched(policy)
        self._tokenizer = tokenizer
        self._known: dict[str, Measured] = {}
        self._builder = WindowBuilder(self._policy, tokenizer, WindowOptions(), makers=MAKERS, render_keep=RENDER_KEEP)

    async def answer(self, past: Past, ask: Ask, plan: Plan = EMPTY) -> Answer:
        """The window for an ask. Raises `BudgetError` when what must stay is larger than the budget."""
        conversation = past.conversation(ask.model)
        measured = await self._measured(past, conversation)
        limit = int(ask.budget * (1 - MARGIN) / ask.ratio)
        room = limit - PRIMING
        # A policy reckons without deltas: the first try has the room that they may free, later ones what is true.
        draft = self._draft(past, ask, conversation, measured, plan, room + min(_spare(measured), room // 2))
        tried = room + min(_spare(measured), room // 2)
        for _ in range(TRIES):
            if draft.used <= limit or tried <= 0:
                break
            tried -= draft.used - limit + PER_MESSAGE
            draft = self._draft(past, ask, conversation, measured, plan, max(tried, 0))
        if draft.used > limit:
            draft = self._squeezed(past, measured, draft, limit)
        if draft.used > limit:
            needed = int(draft.used * ask.ratio / (1 - MARGIN)) + 1
            raise BudgetError(
                f"pins and the newest exchange take {needed:,} tokens; the budget is {ask.budget:,}",
                needed=needed,
                hint="Ask for more, or unpin something: see the manifest of a larger window.",
            )
        return Answer(self._window(past, ask, measured, draft), draft.decision.plan)

    async def _measured(self, past: Past, conversation: Conversation) -> Measured:
        """The items with their costs; of a conversation that was asked about before, only what is new is read."""
        last = self._known.pop(past.id, None)
        prior = Prior(last) if last is not None else None
        measured = self._known[past.id] = await self._builder.measure(conversation, past.id, past.ids, prior)
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        if not past.cites:
            return measured
        facts = [
            fact if past.cites.get(fact.id, fact.cites) == fact.cites else replace(fact, cites=past.cites[fact.id])
            for fact in measured.facts
        ]
        return replace(measured, facts=tuple(facts))

    def _draft(
        self, past: Past, ask: Ask, conversation: Conversation, measured: Measured, plan: Plan, room: int
    ) -> Draft:
        decision = self._builder.decide(
            conversation,
            measured,
            plan,
            frozenset(past.ids),
            Limits(Budget(room), Prices()),
            pressure=Pressure("budget", room, ask.budget) if measured.tokens > room else None,
            memory={},
            pinned=past.pinned,
            importance=past.importance,
            query=ask.query,
        )
        return self._rendered(past, decision, _deduped(past, measured, decision.slots), self._policy.last)

    def _rendered(self, past: Past, decision: Decision, slots: Sequence[Slot], choices: tuple[Choice, ...]) -> Draft:
        raws: list[bytes] = []
        costs: list[int] = []
        for slot in slots:
            raw = _raw(past, slot)
            raws.append(raw)
            costs.append(self._cost(past.fmt.read_element(raw)))
        made = Draft(decision, tuple(slots), tuple(raws), tuple(costs), choices)
        return self._with_rules(past, made)

    def _with_rules(self, past: Past, draft: Draft) -> Draft:
        """The user's rules stand word for word, also where their message is not there in full."""
        whole = {slot.item for slot in draft.slots if slot.form is Form.FULL}
        users = [
            (id, element.text)
            for id, element in zip(past.ids, past.elements, strict=True)
            if element.role == "user" and element.kind == "message" and id not in whole
        ]
        if not users:
            return draft
        shown = "\n".join(slot.note or past.elements[slot.index or 0].text for slot in draft.slots)
        missing = unshown_rules(users, shown)
        if not missing:
            return draft
        note = rules_note(missing)
        raw = past.fmt.note(note)
        at = next((i for i, slot in enumerate(draft.slots) if slot.index is None), len(draft.slots))
        slot = Slot(None, "", Form.FOLDED, note=note, reason="the user's rules, word for word")
        cost = self._cost(past.fmt.read_element(raw))
        return replace(
            draft,
            slots=(*draft.slots[:at], slot, *draft.slots[at:]),
            raws=(*draft.raws[:at], raw, *draft.raws[at:]),
            costs=(*draft.costs[:at], cost, *draft.costs[at:]),
        )

    def _squeezed(self, past: Past, measured: Measured, draft: Draft, limit: int) -> Draft:
        """Where even the newest exchange is too large: its results become excerpts, then stubs, the largest first."""
        order = sorted(range(len(draft.slots)), key=lambda place: -draft.costs[place])
        for form in (Form.EXCERPT, Form.STUB):
            for place in order:
                slot = draft.slots[place]
                if draft.used <= limit or slot.index is None or slot.item in past.pinned or slot.form <= form:
                    continue
                fact = measured.facts[slot.index]
                texts = fact.excerpt_texts if form is Form.EXCERPT else fact.stub_texts
                if texts:
                    reason = f"larger than the budget allows: {fact.tokens:,} tokens"
                    draft = self._replaced(past, draft, place, Slot(slot.index, slot.item, form, texts, reason=reason))
                    draft = self._without_references(past, measured, draft, slot.item)
        return draft

    def _without_references(self, past: Past, measured: Measured, draft: Draft, item: str) -> Draft:
        """No text may say that lines stand in an item which is not whole any more: it becomes a stub, else whole."""
        for place, slot in enumerate(draft.slots):
            fact = measured.facts[slot.index] if slot.index is not None else None
            if fact is None or slot.texts != fact.excerpt_texts or not slot.texts or item not in fact.bases:
                continue
            form = Form.STUB if fact.stub_texts else Form.FULL
            made = Slot(slot.index, slot.item, form, fact.stub_texts, reason=f"referred to {item}, which is not whole")
            draft = self._replaced(past, draft, place, made)
        return draft

    def _replaced(self, past: Past, draft: Draft, place: int, slot: Slot) -> Draft:
        raw = _raw(past, slot)
        cost = self._cost(past.fmt.read_element(raw))
        return replace(
            draft,
            slots=(*draft.slots[:place], slot, *draft.slots[place + 1 :]),
            raws=(*draft.raws[:place], raw, *draft.raws[place + 1 :]),
            costs=(*draft.costs[:place], cost, *draft.costs[place + 1 :]),
        )

    def _cost(self, element: Element) -> int:
        """Tokens of a message as a provider counts it, rather a little too many."""
        return self._tokenizer.count(element.text) + element.flat_tokens + PER_MESSAGE + PER_CALL * len(element.calls)

    def _kept_tokens(self, element: Element, fact: Facts, choice: Choice) -> int:
        """What the kept part of an item takes in the summary's message."""
        made = RENDER_KEEP(
            element.text,
            choice.keep,
            id=fact.id,
            tool=fact.tool or element.role,
            failed=element.is_failed,
            argument=fact.argument,
        )
        return self._tokenizer.count(made)

    # -- the manifest ----------------------------------------------------------------------------

    def _window(self, past: Past, ask: Ask, measured: Measured, draft: Draft) -> Window:
        def billed(counted: int) -> int:
            return -int(-counted * ask.ratio // 1)

        told = "\n".join(slot.note for slot in draft.slots if slot.index is None)
        at = {slot.item: (place, slot) for place, slot in enumerate(draft.slots) if slot.index is not None}
        entries: list[ManifestEntry] = []
        kept_tokens = 0  # of the summary's message, what the kept parts of other items take
        for index, choice in enumerate(draft.choices):
            place, slot = at.get(choice.id, (-1, None))
            made = _entry(past, measured.facts[index], index, choice, slot)
            tokens = draft.costs[place] if slot is not None else 0
            if made.place == "dropped" and made.id in told:
                made = replace(made, place="stub", reason=f"one line in the summary: {made.reason}")
            elif slot is None and choice.keep:
                tokens = self._kept_tokens(past.elements[index], measured.facts[index], choice)
                kept_tokens += tokens
            entries.append(replace(made, tokens=billed(tokens), full_tokens=billed(made.full_tokens)))
        notes = [
            _note_entry(slot, billed(max(0, draft.costs[place] - (kept_tokens if slot.item else 0))))
            for place, slot in enumerate(draft.slots)
            if slot.index is None
        ]
        manifest = WindowManifest(
            conversation=past.id,
            branch=past.branch.id,
            model=ask.model,
            query=ask.query,
            budget=ask.budget,
            used=billed(draft.used),
            tokens_in=billed(measured.tokens),
            policy=self._policy.name,
            reason=draft.decision.reason,
            entries=(*notes, *entries),
        )
        return Window(compose.to_send(draft.raws), manifest)


@dataclass(frozen=True, slots=True)
class Draft:
    """A window in the making; `slots`, `raws` and `costs` are parallel, `choices` those of the policy."""

    decision: Decision
    slots: tuple[Slot, ...]
    raws: tuple[bytes, ...]
    costs: tuple[int, ...]
    choices: tuple[Choice, ...]

    @property
    def used(self) -> int:
        return sum(self.costs) + PRIMING


def _spare(measured: Measured) -> int:
    """Tokens that deltas could save at most."""
    return sum(fact.tokens - fact.excerpt_tokens for fact in measured.facts if fact.excerpt == "delta")


def _deduped(past: Past, measured: Measured, slots: Sequence[Slot]) -> list[Slot]:
    """Lines that stand in another item of this very window are not repeated: those become references.

    Lossless, and only where every item that is referred to stands here, whole or itself without lines of others.
    """
    standing = {slot.item for slot in slots if slot.form is Form.FULL}
    made: list[Slot] = []
    for slot in slots:
        fact = measured.facts[slot.index] if slot.index is not None else None
        if (
            fact is None
            or slot.form is not Form.FULL
            or fact.excerpt != "delta"
            or fact.id in past.pinned
            or not standing.issuperset(fact.bases)
        ):
            made.append(slot)
            continue
        reason = f"lines that stand in {', '.join(fact.bases)} are not repeated"
        made.append(Slot(slot.index, slot.item, Form.EXCERPT, fact.excerpt_texts, reason=reason))
    return made


def _raw(past: Past, slot: Slot) -> bytes:
    """The bytes that stand for a slot."""
    if slot.index is None:
        return past.fmt.note(slot.note)
    element = past.elements[slot.index]
    return element.raw if slot.form is Form.FULL else past.fmt.render(element, slot.texts)


def _note_entry(slot: Slot, tokens: int) -> ManifestEntry:
    return ManifestEntry(
        id=slot.item,
        kind="summary",
        role="user",
        place="summary",
        form="full",
        tokens=tokens,
        full_tokens=tokens,
        score=0.0,
        reason=slot.reason or "stands for what was folded",
        preview=clip(slot.note, PREVIEW_CHARS),
    )


def _entry(past: Past, fact: Facts, index: int, choice: Choice, slot: Slot | None) -> ManifestEntry:
    element, row = past.elements[index], past.rows[index].row
    form = slot.form if slot is not None else choice.form
    segments = len(split(element.text)) if choice.keep else 0
    is_fixed = fact.id in past.pinned or element.role in ("system", "developer") or choice.reason == "pinned"
    return ManifestEntry(
        id=fact.id,
        kind=row.kind,
        role=row.role,
        place="pinned" if is_fixed and form is Form.FULL else _place(form, choice),
        form=form.name.lower(),
        tokens=0,
        full_tokens=fact.tokens,
        score=choice.score,
        reason=(slot.reason if slot is not None else "") or choice.reason or _why(form),
        preview=clip(without_encoded(element.text[:2_000]), PREVIEW_CHARS),
        tool=fact.tool,
        source=fact.argument,
        kept=len(choice.keep),
        segments=segments,
    )


def _place(form: Form, choice: Choice) -> Place:
    if form is Form.FULL or (form is Form.EXCERPT and choice.form is Form.FULL):
        return "recent"
    if form is Form.STUB:
        return "stub"
    return "relevant" if choice.keep or form is Form.EXCERPT else "dropped"


def _why(form: Form) -> str:
    return "fits: among the newest" if form is Form.FULL else "older than what fits"
