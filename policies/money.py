"""The money rules at work on a draft: pay rent for what is carried, fold when it is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.ageing import WordIndex, groups_in_use
from policies.draft import Draft, digest_allowance
from policies.economics import (
    EconomicsOptions,
    decision_prices,
    is_rent_due,
    is_soon_earned,
    rent,
)
from policies.model import Form

RENT = "rent"
SENT = "sent"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Policy memory: the rent paid so far, and the length of the list it was last paid for."""

    rent: float = 0.0
    sent: int = 0

    @classmethod
    def read(cls, memory: Mapping[str, float]) -> Ledger:
        return cls(memory.get(RENT, 0.0), int(memory.get(SENT, 0)))

    def memory(self) -> dict[str, float]:
        return {RENT: self.rent, SENT: self.sent}

    def advance(self, length: int, rent: float) -> Ledger:
        """The ledger after a list of `length`. The same list again changes nothing."""
        return self if length == self.sent else Ledger(rent, length)


def newest_call(draft: Draft) -> int:
    return max((candidate.call for candidate in draft.candidates), default=0)


def is_busy(draft: Draft, options: EconomicsOptions) -> bool:
    """Does the run grow so fast that its outputs outweigh all else?"""
    calls = newest_call(draft)
    total = sum(candidate.tokens for candidate in draft.candidates if not candidate.is_pinned)
    return calls > 0 and total >= options.busy_growth * calls


def foldable_groups(draft: Draft, options: EconomicsOptions, index: WordIndex) -> list[range]:
    """Groups before the tail that no recent action named; never a user message."""
    tail = tail_start(draft, options)
    groups = [
        group
        for group in draft.groups()
        if group.stop <= tail and draft.can_fold(group) and all(draft.candidates[i].kind != "user" for i in group)
    ]
    most = sum(draft.cost(i) for group in groups for i in group)
    if most < options.min_fold:
        return []
    live = [candidate for candidate in draft.candidates if draft.forms[candidate.index] > Form.FOLDED]
    used = groups_in_use(live, index, options.last_use)
    return [group for group in groups if draft.candidates[group.start].group not in used]


def tail_start(draft: Draft, options: EconomicsOptions) -> int:
    """Index where the tail begins: the last calls by count and tokens, but never fewer than the least."""
    newest = newest_call(draft)
    tokens = 0
    start = len(draft.candidates)
    for candidate in reversed(draft.candidates):
        age = newest - candidate.call
        tokens += draft.cost(candidate.index)
        if age >= options.tail_min_calls and (age >= options.tail_calls or tokens > options.tail_tokens):
            break
        start = candidate.index
    return start


def fold_when_due(draft: Draft, ledger: Ledger, options: EconomicsOptions, index: WordIndex) -> tuple[str, float]:
    """Add this call's rent and fold when it is due, or at once on a cold cache. The reason, and the rent left."""
    if draft.tokens < options.small:
        return "", ledger.rent
    groups = foldable_groups(draft, options, index)
    if not groups:
        return "", ledger.rent
    removed = sum(draft.cost(i) for group in groups for i in group)
    calls = draft.folded_calls + sum(draft.candidates[i].kind == "tool_result" for group in groups for i in group)
    digest = digest_allowance(calls)
    foldable = removed - max(0, digest - draft.digest_tokens)
    prices = decision_prices(draft.situation.prices, options)
    paid = ledger.rent if ledger.sent == len(draft.candidates) else ledger.rent + rent(foldable, prices)
    first = next((i for i, form in enumerate(draft.forms) if form is Form.FOLDED), groups[0].start)
    first = min(first, groups[0].start)
    behind = digest + sum(draft.cost(i) for i in range(first, len(draft.forms))) - removed
    is_free = draft.situation.is_cold and foldable >= options.min_fold
    is_due = is_rent_due(paid, behind, prices, options) and is_soon_earned(
        foldable, behind, newest_call(draft), prices, options
    )
    if not is_free and not (is_due and foldable >= options.min_fold):
        return "", paid
    why = "cache cold" if is_free else f"rent {paid:,.0f}"
    for group in groups:
        draft.fold(group, f"unused for {options.last_use} calls, {why}")
    return f"folded {foldable:,} tokens for {behind:,} written again: {why}", 0.0
