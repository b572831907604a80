"""A small model of the bill: a prompt cache, prices, and needs. For judging policies, not a test itself.

Tokens are chars/4. The cache is the longest common prefix with any of the last six requests, at
least 1,024 tokens, in steps of 128. A need met by no visible source costs one more call: the window
cached, the item at list price, 60 output tokens; its copy then stays where it came in, until what
stands before it is folded. A delta shows what its item says as long as its bases stand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from policies.contract import Policy, check
from policies.draft import digest_allowance
from policies.model import NOT_OFFERED, Budget, Candidate, Form, Pressure, Prices, Selection, Situation
from policies.segments import Segment, split
from tests.policies.sessions import Message, Need, Session

EXPAND_OUTPUT = 60
Block = tuple[str, int]


@dataclass(slots=True)
class Bill:
    """What a session cost under one policy. Tokens above a limit count as often as their price is higher."""

    prices: Prices = field(default_factory=Prices)
    fresh: float = 0.0
    cached: float = 0.0
    listed: float = 0.0  # what expands brought, at the list price
    calls: int = 0
    changes: int = 0  # windows that the policy changed
    breaks: int = 0  # requests that made the provider read anew what it had read from its cache before
    tail_changes: int = 0  # requests that changed only what the request before had sent for the first time
    needs: int = 0
    met: int = 0
    steps: int = 0  # steps with needs, and those with all of them met
    steps_met: int = 0
    states: int = 0
    states_met: int = 0
    expands: int = 0
    peak: int = 0
    over: int = 0  # calls above the limit
    dangling: int = 0  # deltas whose base does not stand: must never be
    breaks_at: list[int] = field(default_factory=list)
    missed: list[tuple[int, int, str]] = field(default_factory=list)
    reasons: list[tuple[int, str]] = field(default_factory=list)

    @property
    def input(self) -> float:
        """The bill at the prices that the policy was told."""
        return self.at(self.prices)

    def at(self, prices: Prices) -> float:
        """The bill of the same windows at other prices."""
        output = self.expands * EXPAND_OUTPUT * prices.output
        return self.fresh * prices.write + self.cached * prices.cached + self.listed + output


def simulate(
    session: Session, policy: Policy, prices: Prices | None = None, *, limit: int = 0, guard: float = 0.97,
    goal: float = 0.6, over_price: float = 1.0, cold: Collection[int] = (),
) -> Bill:  # fmt: skip
    """Replay a session. With `limit`, pressure arises when the next request would pass `guard` x limit.

    A call above the limit costs `over_price` times as much. At the steps in `cold` the cache is gone.
    """
    prices = prices or Prices()
    bill = Bill(prices)
    held: dict[str, Form] = {}
    kept: dict[str, tuple[int, ...]] = {}
    memory: Mapping[str, float] = {}
    digest_tokens = 0
    seen = 0
    past: list[list[Block]] = []
    copies: dict[int, int] = {}
    fresh = [_candidate(session.messages[i], i, is_seen=False) for i in range(len(session.messages))]
    known = [_candidate(session.messages[i], i, is_seen=True) for i in range(len(session.messages))]
    needs: dict[int, list[Need]] = {}
    for need in session.needs:
        needs.setdefault(need.step, []).append(need)
    for step, message in enumerate(session.messages):
        if message.kind != "assistant" or (step and session.messages[step - 1].group == message.group):
            continue
        candidates = (*known[:seen], *fresh[seen:step])
        extra = sum(session.messages[source].tokens for source in copies)
        pressure = _pressure(candidates, held, digest_tokens + extra, limit, guard, goal)
        past = [] if step in cold else past
        situation = Situation(
            candidates, Budget(limit or 10_000_000), prices, held, kept, digest_tokens, pressure,
            is_cold=step in cold, is_new_turn=bool(candidates) and candidates[-1].kind == "user", memory=memory,
        )  # fmt: skip
        selection = policy.select(situation)
        check(situation, selection)
        selection = _with_kept(selection, held, kept)
        chosen = [choice.form for choice in selection.choices]
        if any(held.get(c.id, Form.FULL) is not form for c, form in zip(candidates, chosen, strict=True)):
            bill.changes += 1
            bill.reasons.append((step, selection.reason))
        bill.dangling += _dangling(session, chosen)
        copies = {source: at for source, at in copies.items() if chosen[at - 1] > Form.FOLDED}
        blocks, digest_tokens = _blocks(candidates, selection, copies)
        window = sum(tokens for _, tokens in blocks)
        cached = _from_cache(blocks, past)
        if past:
            common = _common(blocks, past[-1])
            # What only the last request had in full was never read from the cache: losing it is no break.
            is_break = len(past) > 1 and common < _common(past[-2], past[-1])
            bill.tail_changes += not is_break and common < sum(tokens for _, tokens in past[-1])
            if is_break:
                bill.breaks += 1
                bill.breaks_at.append(step)
        is_over = bool(limit and window > limit)
        bill.fresh += (window - cached) * (over_price if is_over else 1.0)
        bill.cached += cached * (over_price if is_over else 1.0)
        bill.calls += 1
        bill.peak = max(bill.peak, window)
        bill.over += is_over
        past = [*past[-5:], blocks]
        held = {c.id: form for c, form in zip(candidates, chosen, strict=True) if form is not Form.FULL}
        kept = {choice.id: choice.keep for choice in selection.choices if choice.keep}
        memory = selection.memory
        seen = step
        _meet(session, needs.get(step, ()), selection, copies, window, bill)
    return bill


def _with_kept(selection: Selection, held: Mapping[str, Form], kept: Mapping[str, tuple[int, ...]]) -> Selection:
    """The selection with what stays kept while the fold is as it was: such choices need not say it again."""
    folded = [choice for choice in selection.choices if choice.form is Form.FOLDED]
    if any(choice.keep or held.get(choice.id) is not Form.FOLDED for choice in folded):
        return selection
    choices = tuple(replace(c, keep=kept[c.id]) if c.id in kept else c for c in selection.choices)
    return replace(selection, choices=choices)


def _candidate(message: Message, index: int, *, is_seen: bool) -> Candidate:
    return Candidate(
        id=f"m{index:06d}",
        index=index,
        group=message.group,
        call=message.call,
        kind=message.kind,
        costs=(0, 0, message.stub, message.excerpt, NOT_OFFERED, message.tokens),
        is_pinned=message.is_pinned,
        is_seen=is_seen,
        is_failed=message.is_failed,
        tool=message.tool,
        size_chars=len(message.text),
        text=message.text,
        source=message.source,
        excerpt=message.excerpt_kind,
        bases=tuple(f"m{base:06d}" for base in message.bases),
    )


def _pressure(
    candidates: Sequence[Candidate], held: Mapping[str, Form], extra: int, limit: int, guard: float, goal: float
) -> Pressure | None:
    if not limit:
        return None
    tokens = extra + sum(max(0, c.costs[held.get(c.id, Form.FULL)]) for c in candidates)
    return Pressure("guard", int(goal * limit), tokens) if tokens > guard * limit else None


def _dangling(session: Session, chosen: Sequence[Form]) -> int:
    return sum(
        form is Form.EXCERPT and any(not _stands(session.messages[base], chosen[base]) for base in message.bases)
        for message, form in zip(session.messages, chosen, strict=False)
    )


def _stands(message: Message, form: Form) -> bool:
    return form is Form.FULL or (form is Form.EXCERPT and message.excerpt_kind == "delta")


def _blocks(
    candidates: Sequence[Candidate], selection: Selection, copies: Mapping[int, int]
) -> tuple[list[Block], int]:
    folded = [choice for choice in selection.choices if choice.form is Form.FOLDED]
    calls = sum(
        choice.form is Form.FOLDED and c.kind == "tool_result"
        for c, choice in zip(candidates, selection.choices, strict=True)
    )
    digest = digest_allowance(calls) if folded else 0
    for candidate, choice in zip(candidates, selection.choices, strict=True):
        if choice.form is Form.FOLDED and choice.keep:
            digest += kept_tokens(candidate, choice.keep)
    at: dict[int, list[int]] = {}
    for source, place in copies.items():
        at.setdefault(place, []).append(source)
    blocks: list[Block] = []
    has_digest = False
    for candidate, choice in zip(candidates, selection.choices, strict=True):
        if choice.form is Form.FOLDED:
            if not has_digest:
                blocks.append(
                    (f"digest of {len(folded)} to {folded[-1].id}, {hash(tuple(c.keep for c in folded))}", digest)
                )
                has_digest = True
        elif choice.form is not Form.ABSENT:
            blocks.append((f"{candidate.id}/{choice.form:d}", candidate.costs[choice.form]))
        for source in at.get(candidate.index + 1, ()):
            blocks.append((f"copy of {source}", candidates[source].tokens))
    return blocks, digest


@lru_cache(maxsize=20_000)
def _segments(text: str) -> tuple[Segment, ...]:
    return split(text)


def kept_tokens(candidate: Candidate, keep: Sequence[int]) -> int:
    """Tokens of an item's kept segments with its header line."""
    segments = _segments(candidate.text)
    return 15 + sum(len(segments[index].text) + 1 for index in keep) // 4


def _from_cache(blocks: Sequence[Block], past: Sequence[Sequence[Block]]) -> int:
    common = max((_common(blocks, other) for other in past), default=0)
    return common // 128 * 128 if common >= 1_024 else 0


def _common(one: Sequence[Block], other: Sequence[Block]) -> int:
    common = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        common += a[1]
    return common


def _meet(
    session: Session, needs: Sequence[Need], selection: Selection, copies: dict[int, int], window: int, bill: Bill
) -> None:
    before = bill.met
    for need in needs:
        bill.needs += 1
        bill.states += need.is_whole
        if any(s in copies or _shows(session.messages[s], selection, s, need) for s in need.sources):
            bill.met += 1
            bill.states_met += need.is_whole
            continue
        source = need.sources[-1]
        bill.expands += 1
        bill.missed.append((need.step, source, need.atom))
        bill.cached += window
        bill.listed += session.messages[source].tokens
        copies[source] = need.step
    if needs:
        bill.steps += 1
        bill.steps_met += bill.met - before == len(needs)


def _shows(message: Message, selection: Selection, source: int, need: Need) -> bool:
    choice = selection.choices[source]
    if _stands(message, choice.form):
        return True
    if choice.keep and len(choice.keep) == len(_segments(message.text)):
        return True
    if need.is_whole or not need.atom:
        return False
    if choice.keep and any(need.atom in _segments(message.text)[index].text for index in choice.keep):
        return True
    return choice.form is Form.EXCERPT and need.atom in message.excerpt_text
