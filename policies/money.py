"""The money rules at work on a draft: pay rent for what is carried, fold when it is due."""

from __future__ import annotations

from dataclasses import replace

from policies.ageing import WordIndex, groups_in_use
from policies.draft import Draft, digest_allowance
from policies.economics import (
    EconomicsOptions,
    decision_prices,
    is_break_small,
    is_rent_due,
    is_soon_earned,
    rent,
)
from policies.filling import Filler
from policies.ledger import Ledger, newest_call
from policies.model import Form
from policies.outputs import error_segments

READ_CHARS = 1_200_000


def foldable_groups(draft: Draft, options: EconomicsOptions, index: WordIndex) -> list[range]:
    """Groups before the tail that no recent action named; never a user message."""
    groups = draft.foldable_before(tail_start(draft, options))
    if draft.cost_of(groups) < options.min_fold:
        return []
    forms = draft.forms
    live = [candidate for candidate in draft.candidates if forms[candidate.index] > Form.FOLDED]
    used = groups_in_use(live, index, options.last_use)
    return draft.without_needed_bases([g for g in groups if draft.candidates[g.start].group not in used])


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


def fold_when_due(
    draft: Draft, ledger: Ledger, options: EconomicsOptions, index: WordIndex, filler: Filler
) -> tuple[str, float]:
    """Add this call's rent; fold when it is due, or at once where that is free. The reason, and the rent left."""
    if draft.tokens < options.small:
        return "", ledger.rent
    groups = foldable_groups(draft, options, index)
    if not groups:
        return "", ledger.rent
    candidates = draft.candidates
    going = [i for group in groups for i in group]
    removed = draft.cost_of(groups)
    calls = draft.folded_calls + [candidates[i].kind for i in going].count("tool_result")
    folded = [i for i, form in enumerate(draft.forms) if form is Form.FOLDED]
    room = keep_room(sum([candidates[i].costs[Form.FULL] for i in (*folded, *going)]), options)
    digest = digest_allowance(calls) + room
    foldable = removed - max(0, digest - draft.digest_tokens)
    prices = decision_prices(draft.situation.prices, options)
    paid = ledger.rent if ledger.sent == len(draft.candidates) else ledger.rent + rent(foldable, prices)
    first = min([*folded[:1], groups[0].start])
    # What is not in the cache is written again in any case.
    end = draft.situation.cached_end
    behind = digest + draft.cost_of([range(first, end)]) - sum([draft.cost(i) for i in going if i < end])
    is_free = first >= end and foldable >= options.min_fold
    newest = newest_call(draft)
    is_due = (
        is_rent_due(paid, behind, prices, options)
        and is_soon_earned(foldable, behind, newest, prices, options)
        and is_break_small(behind, sum([c.costs[Form.FULL] for c in candidates]), newest, prices, options)
    )
    if not is_free and not (is_due and foldable >= options.min_fold):
        return "", paid
    why = f"rent {paid:,.0f}" if not is_free else "cache cold" if end == 0 else f"the client's own change at {end}"
    for group in groups:
        draft.fold(group, f"unused for {options.last_use} calls, {why}")
    keep_best(draft, room, filler)
    return f"folded {foldable:,} tokens for {behind:,} written again: {why}", 0.0


def keep_room(tokens: int, options: EconomicsOptions) -> int:
    """Tokens of the folded items that may stay word for word."""
    return min(options.keep_limit, int(options.keep_share * tokens))


def weighed_from(draft: Draft) -> int:
    """Index from which the list is weighed for lines to keep."""
    chars = 0
    for candidate in reversed(draft.candidates):
        chars += len(candidate.text)
        if chars > READ_CHARS:
            return candidate.index + 1
    return 0


def keep_best(draft: Draft, room: int, filler: Filler) -> None:
    """Keep the lines of all folded items that are most likely needed again, in so much room, and reported errors.

    Only the newest `READ_CHARS` of the list are weighed: what has to be read after a restart stays bounded.
    """
    folded = [i for i, form in enumerate(draft.forms) if form is Form.FOLDED]
    start = weighed_from(draft)
    situation = draft.situation
    if start:
        situation = replace(situation, candidates=situation.candidates[start:])
    filling = filler.fill(situation, [i - start for i in folded if i >= start], room)
    keep = {i + start: kept for i, kept in filling.keep.items()}
    for i in folded:
        if draft.candidates[i].kind == "tool_result" and (errors := error_segments(draft.candidates[i])):
            keep[i] = tuple(sorted({*keep.get(i, ()), *errors}))
    draft.keep = keep
