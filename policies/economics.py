"""Does a rewrite pay? Closed forms and constants of the bill under prompt caching. Pure arithmetic on tokens.

Prices are ratios to uncached input: c a cached read, w a write, o an output token. A rewrite that
removes M tokens and leaves A tokens behind its first change costs (w - c) A once and saves c M a call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies.model import Prices

EXPAND_OUTPUT = 60
"""Output tokens of one expand call."""


@dataclass(frozen=True, slots=True)
class EconomicsOptions:
    """Constants of the money rules.

    `decide_cached`: decisions never assume a dearer cached read than this: beyond it a pure money
    optimum gets greedy and loses what the run still needs. `patience`: rent that must be paid before
    a fold, in units of its break. `last_use`: calls for which a group named by an action stays.
    `tail_calls`, `tail_tokens`, `tail_min_calls`: what a fold by rent leaves alone. `min_fold`:
    least tokens worth a fold. `prudence`: a fold must be earned within the calls so far, divided by
    this: a run may end at any call. `break_share`: its break may cost at most this share of what the
    run has cost without it, so that no run gets dearer by more. `small`: windows below this are left
    alone, but for excerpts in a run that grows by `fast_growth` tokens a call and more. `keep_share`,
    `keep_limit`: of what is folded, the lines most likely needed again stay word for word, in so much.

    Of results that were seen once: `deltas`: lines that stand above are not repeated.
    `tail_masks`: those needed again in at most this share of cases become stubs where that pays.
    `excerpts`: those of `excerpt_from` tokens and more, but not file reads, become excerpts: where
    `excerpt_gate` times the odds of a miss are paid for by the calls so far, 0 for at once.
    `miss_worth`: tokens that one missed need is worth beyond its money.
    """

    decide_cached: float = 0.1
    patience: float = 2.0
    last_use: int = 12
    tail_calls: int = 10
    tail_tokens: int = 4_000
    tail_min_calls: int = 3
    min_fold: int = 2_000
    prudence: float = 8.0
    break_share: float = 0.06
    small: int = 10_000
    fast_growth: int = 1_000
    keep_share: float = 0.02
    keep_limit: int = 500
    deltas: bool = True
    tail_masks: float = 0.175
    excerpts: bool = True
    excerpt_from: int = 1_000
    excerpt_gate: float = 0.0
    miss_worth: int = 5_000


def decision_prices(prices: Prices, options: EconomicsOptions) -> Prices:
    """The prices to decide with."""
    return Prices(min(prices.cached, options.decide_cached), prices.write, prices.output)


def break_cost(behind: float, prices: Prices) -> float:
    """What it costs to write `behind` tokens again that would have been read from the cache."""
    return max(0.0, prices.write - prices.cached) * behind


def calls_to_break_even(removed: float, behind: float, prices: Prices, misses: float = 0.0) -> float:
    """After how many calls a rewrite has earned its break and its misses: (w - c)/c x A/M + misses/(c M)."""
    saved = rent(removed, prices)
    return (break_cost(behind, prices) + misses) / saved if saved > 0 else math.inf


def miss_cost(tokens: float, window: float, prices: Prices, worth: float = 0.0) -> float:
    """One missed need: the item at list price, the window once more from the cache, the call that asks for it."""
    return tokens + prices.cached * window + prices.output * EXPAND_OUTPUT + worth


def best_period(behind: float, growth: float, prices: Prices) -> float:
    """Calls between folds that cost least at `growth` new tokens a call: sqrt(2 (w - c) A / (c g))."""
    if growth <= 0 or prices.cached <= 0:
        return math.inf
    return math.sqrt(2 * break_cost(behind, prices) / (prices.cached * growth))


def hold_horizon(tokens: float, window: float, prices: Prices) -> float:
    """Hold an item only if its next use is nearer than so many calls; else fetching it again is cheaper."""
    if prices.cached <= 0 or tokens <= 0:
        return math.inf
    return miss_cost(tokens, window, prices) / (prices.cached * tokens)


def cliff_break_even(removed: float, behind: float, window: float, multiplier: float, prices: Prices) -> float:
    """Calls after which a fold that keeps a request below a price cliff has paid; `multiplier` is the dearer price."""
    saved = (multiplier - 1) * prices.cached * window + multiplier * rent(removed, prices)
    return break_cost(behind, prices) / saved if saved > 0 else math.inf


def rent(foldable: float, prices: Prices) -> float:
    """What one more call pays for carrying `foldable` tokens."""
    return prices.cached * max(0.0, foldable)


def is_rent_due(paid: float, behind: float, prices: Prices, options: EconomicsOptions) -> bool:
    """Has carrying cost so much that the break would have been cheaper, `patience` times over?"""
    return paid >= options.patience * break_cost(behind, prices)


def is_soon_earned(removed: float, behind: float, calls: int, prices: Prices, options: EconomicsOptions) -> bool:
    """Will the break be earned within a small part of the calls so far?"""
    return options.prudence * calls_to_break_even(removed, behind, prices) <= calls


def is_break_small(behind: float, tokens: float, calls: int, prices: Prices, options: EconomicsOptions) -> bool:
    """Is the break a small part of the bill so far, were the call after it the last? `tokens` is the list in full.

    A list that grew evenly was written once and read, half grown on average, at every call.
    """
    so_far = prices.write * tokens + prices.cached * tokens * calls / 2
    return break_cost(behind, prices) <= options.break_share * so_far


def is_shorter_worth(
    removed: int, odds: float, tokens: int, calls: int, window: float, prices: Prices, options: EconomicsOptions
) -> bool:
    """Is it worth shortening a result right after it was seen? The run is expected to go on as long as it has.

    `odds` that it is needed again are paid as a miss each.
    """
    return rent(removed, prices) * calls > odds * miss_cost(tokens, window, prices, options.miss_worth)
