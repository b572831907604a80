"""Shortens results that were seen in full exactly once: no cached token is touched, so nothing is paid twice."""

from __future__ import annotations

from policies.draft import Draft
from policies.economics import EconomicsOptions, calls_to_break_even, decision_prices, is_shorter_worth
from policies.ledger import Ledger, newest_call
from policies.model import Candidate, Form
from policies.outputs import need_probability, output_kind

PINS_LOOKED_AT = 4
MIN_CALLS = 5
"""How fast a run grows is not known before."""


def shorten_tail(draft: Draft, ledger: Ledger, options: EconomicsOptions) -> str:
    """Delta, stub or excerpt each result of the newest exchange but one. The reason in words, "" without any."""
    window = draft.tokens
    calls = newest_call(draft)
    pinned = sum(candidate.tokens for candidate in draft.candidates[:PINS_LOOKED_AT] if candidate.is_pinned)
    is_fast = window - pinned >= options.fast_growth * max(calls, MIN_CALLS)
    if (window < options.small and not is_fast) or ledger.sent == len(draft.candidates):
        return ""
    counts: dict[str, int] = {}
    before = window
    for candidate in draft.candidates[ledger.sent_before : ledger.sent]:
        if candidate.kind == "tool_result" and draft.forms[candidate.index] is Form.FULL:
            made = _shorten(draft, candidate, calls, before, options)
            if made:
                counts[made] = counts.get(made, 0) + 1
    if not counts:
        return ""
    what = ", ".join(f"{count} {made}" for made, count in counts.items())
    return f"shortened what was seen once ({what}): {before:,} tokens to {draft.tokens:,}"


def _shorten(draft: Draft, candidate: Candidate, calls: int, window: int, options: EconomicsOptions) -> str:
    """What became of one result: a stub, a delta, an excerpt, or nothing ("")."""
    index, tokens, costs = candidate.index, candidate.tokens, candidate.costs
    kind = output_kind(candidate)
    odds = need_probability(kind, tokens)
    prices = decision_prices(draft.situation.prices, options)

    def is_worth(form: Form, risk: float) -> bool:
        removed = tokens - costs[form]
        if window < options.small and calls_to_break_even(removed, costs[form], prices) > calls:
            return False  # what is left of it is written once more: a short run may end before that has paid
        return risk == 0 or is_shorter_worth(removed, risk, tokens, calls, window, prices, options)

    is_base = bool(draft.deltas_on(index))  # a delta that says less would take what refers to it along
    is_rare = odds <= options.tail_masks and not candidate.is_failed
    if is_rare and not is_base and draft.may_lower(index, Form.STUB) and is_worth(Form.STUB, odds):
        draft.lower(index, Form.STUB, f"{kind} output, needed again in {odds:.0%}")
        return "stub"
    if not draft.may_lower(index, Form.EXCERPT):
        return ""
    if candidate.excerpt == "delta":
        if not options.deltas or not is_worth(Form.EXCERPT, 0):
            return ""
        draft.lower(index, Form.EXCERPT, f"repeats {tokens - costs[Form.EXCERPT]:,} tokens that stand above")
        return "delta"
    is_large = not is_base and options.excerpts and tokens >= options.excerpt_from and kind not in ("read", "copy")
    if not is_large or not is_worth(Form.EXCERPT, options.excerpt_gate * odds):
        return ""
    draft.lower(index, Form.EXCERPT, f"large {kind} output, seen once")
    return "excerpt"
