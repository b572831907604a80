"""Does a rewrite pay? Closed forms and constants of the bill under prompt caching. Pure arithmetic on tokens.

Prices are ratios to uncached input: c a cached read, w a write, o an output token. A rewrite that
removes M tokens and leaves A tokens behind its first change costs (w - c) A once and saves c M a call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies.model import Prices


@dataclass(frozen=True, slots=True)
class EconomicsOptions:
    """Constants of the money rules.

    `decide_cached`: decisions never assume a dearer cached read than this: beyond it a pure money
    optimum gets greedy and loses what the run still needs. `patience`: rent that must be paid before
    a fold, in units of its break. `last_use`: calls for which a group named by an action stays.
    `tail_calls`, `tail_tokens`, `tail_min_calls`: what a fold by rent leaves alone. `min_fold`:
    least tokens worth a fold. `prudence`: a fold must be earned within the calls so far, divided by
    this: a run may end at any call. `small`: windows below this are left alone. `busy_growth`: a run
    that grows by so many tokens a call is busy: its outputs outweigh its talk.
    """

    decide_cached: float = 0.1
    patience: float = 2.0
    last_use: int = 15
    tail_calls: int = 10
    tail_tokens: int = 4_000
    tail_min_calls: int = 3
    min_fold: int = 2_000
    prudence: float = 8.0
    small: int = 10_000
    busy_growth: int = 1_500


def decision_prices(prices: Prices, options: EconomicsOptions) -> Prices:
    """The prices to decide with."""
    return Prices(min(prices.cached, options.decide_cached), prices.write, prices.output)


def break_cost(behind: float, prices: Prices) -> float:
    """What it costs to write `behind` tokens again that would have been read from the cache."""
    return max(0.0, prices.write - prices.cached) * behind


def calls_to_break_even(removed: float, behind: float, prices: Prices) -> float:
    """After how many calls a rewrite has earned its break: (w - c)/c x A/M."""
    saved = rent(removed, prices)
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
