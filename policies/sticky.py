"""The default policy: the previous window and what is new; changes come where they cost nothing, pay, or must be.

A result that was seen once is shortened at the tail, which breaks no cache; what is old is folded once the price of
carrying it has paid the break.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policies.ageing import WordIndex
from policies.draft import Draft, digest_allowance
from policies.economics import EconomicsOptions
from policies.filling import Filler
from policies.ledger import Ledger
from policies.model import Form, Pressure, Selection, Situation
from policies.money import fold_when_due, keep_best, keep_room
from policies.scoring import Weights
from policies.tail import shorten_tail


@dataclass(frozen=True, slots=True)
class StickyOptions(EconomicsOptions):
    """`economics`: let prices decide (see EconomicsOptions); without it, masks in batches at `mask_at`.

    `mask_at`: tokens of items above which a batch of old tool results becomes stubs. `keep`: newest
    results that a batch leaves alone; those of the last exchange stay in any case. `min_batch`,
    `min_share`: a batch must free so many tokens, and that share of the tokens it makes the provider
    read anew. `min_tail`: calls that a fold keeps whole before it would rather mask inside the tail.
    """

    economics: bool = True
    mask_at: int = 32_000
    keep: int = 1
    min_batch: int = 2_000
    min_share: float = 2.0
    min_tail: int = 5

    def __post_init__(self) -> None:
        for name in ("mask_at", "keep", "min_batch", "min_share", "min_tail"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more")


class Sticky:
    """Forms only move down; while nothing forces a change, the window only grows."""

    name = "sticky"
    options_type = StickyOptions

    def __init__(self, options: StickyOptions | None = None) -> None:
        self.options = options or StickyOptions()
        self._words = WordIndex()
        self._filler = Filler(Weights.make())

    def select(self, situation: Situation) -> Selection:
        draft = Draft(situation)
        ledger = Ledger.read(situation.memory)
        rent = ledger.rent
        shortened = shorten_tail(draft, ledger, self.options) if self.options.economics else ""
        if situation.pressure is not None:
            reason = self._relieve(draft, situation.pressure)
            if shortened and not reason:  # it was not worth it: what costs nothing stays done
                draft.reset()
                shorten_tail(draft, ledger, self.options)
        elif self.options.economics:
            reason, rent = fold_when_due(draft, ledger, self.options, self._words, self._filler)
        else:
            reason = self._mask_batch(draft)
        return draft.finish(
            "; ".join(filter(None, (shortened, reason))), ledger.advance(len(situation.candidates), rent).memory()
        )

    def _mask_batch(self, draft: Draft) -> str:
        """Stub old results once the window is over the trigger and the batch is worth its break."""
        tokens = draft.tokens
        if tokens <= self.options.mask_at:
            return ""
        batch = maskable(draft, self.options.keep)
        gain = sum(draft.cost(index) - draft.candidates[index].costs[Form.STUB] for index in batch)
        behind = sum(draft.cost(index) for index in range(batch[0], len(draft.forms))) - gain if batch else 0
        if gain < max(self.options.min_batch, self.options.min_share * behind):
            return ""
        mask(draft, batch, "old result, window over mask_at")
        return f"masked {len(batch)} results: {tokens:,} tokens over mask_at {self.options.mask_at:,}"

    def _relieve(self, draft: Draft, pressure: Pressure) -> str:
        """Bring the window to the target: by masks if they reach it, else by a fold with the longest tail."""
        before = draft.tokens
        if before <= pressure.target:
            return ""
        batch = maskable(draft, self.options.keep)
        gain = sum(draft.cost(index) - draft.candidates[index].costs[Form.STUB] for index in batch)
        if before - gain <= pressure.target:
            mask(draft, batch, f"old result, {pressure.kind}")
            return f"{pressure.kind}: masked {len(batch)} results, {before:,} tokens to {draft.tokens:,}"
        room = min(self.options.keep_limit, pressure.target // 25) if self.options.economics else 0
        fold_to(draft, pressure.target - room, f"before the tail, {pressure.kind}", self.options.min_tail, batch)
        # Where the target is out of reach, shaving off a little at every call would break the cache at every call.
        least = 1 if pressure.kind == "overflow" else self.options.min_batch
        if draft.tokens > pressure.target and before - draft.tokens < least:
            draft.reset()
            return ""
        if room and draft.is_refolded:
            folded = sum([c.tokens for c in draft.candidates if draft.forms[c.index] is Form.FOLDED])
            keep_best(draft, min(room, keep_room(folded, self.options)), self._filler)
        return f"{pressure.kind}: {what_was_done(draft)}, {before:,} tokens to {draft.tokens:,}"


def what_was_done(draft: Draft) -> str:
    """How the draft differs from what was held, in words: `folded 12 calls, masked 3 results`."""
    folded = masked = 0
    for index in draft.changed():
        is_folded = draft.forms[index] is Form.FOLDED
        folded += is_folded and draft.candidates[index].kind == "assistant"
        masked += not is_folded
    words = [f"folded {folded:,} {'call' if folded == 1 else 'calls'}"] if folded else []
    if masked:
        words.append(f"masked {masked:,} {'result' if masked == 1 else 'results'}")
    return ", ".join(words) or "folded"


def maskable(draft: Draft, keep: int) -> list[int]:
    """Indices of the tool results that a batch would stub: all but the newest `keep` and the last exchange."""
    results = [
        candidate.index
        for candidate in draft.candidates
        if candidate.kind == "tool_result" and draft.forms[candidate.index] > Form.FOLDED
    ]
    old = results[: len(results) - keep] if keep else results
    return [index for index in old if draft.may_lower(index, Form.STUB)]


def mask(draft: Draft, batch: Sequence[int], reason: str) -> None:
    for index in batch:
        draft.lower(index, Form.STUB, reason)


def fold_to(draft: Draft, target: int, reason: str, min_tail: int, batch: Sequence[int]) -> None:
    """Fold all before a tail, the longest that lets the window fit `target`.

    When fewer than `min_tail` calls would stay, results in the tail (`batch`, then all but those of
    the last exchange) are stubbed first: calls without their outputs beat no calls.
    """
    groups = [group for group in draft.groups() if draft.can_fold(group)]
    cut = _longest_tail(draft, groups, target)
    for masks in (batch, maskable(draft, 0)):
        if cut is not None and len(groups) - cut >= min_tail:
            break
        mask(draft, masks, reason)
        cut = _longest_tail(draft, groups, target)
    for group in groups[: len(groups) if cut is None else cut]:
        draft.fold(group, reason)


def _longest_tail(draft: Draft, groups: Sequence[range], target: int) -> int | None:
    """How many of the oldest foldable groups must go for the window to fit; None when all are not enough."""
    rest = draft.tokens - draft.digest_tokens
    calls = draft.folded_calls
    for count, group in enumerate(groups):
        allowance = digest_allowance(calls) if calls or count else 0
        if rest + allowance <= target:
            return count
        rest -= sum(draft.cost(index) for index in group)
        calls += sum(draft.candidates[index].kind == "tool_result" for index in group)
    return len(groups) if groups and rest + digest_allowance(calls) <= target else None
