"""Does a rewrite pay? Closed forms and constants of the bill under prompt caching. Pure arithmetic on tokens.

Prices are ratios to uncached input: c a cached read, w a write, o an output token. A rewrite that
removes M tokens and leaves A tokens behind its first change costs (w - c) A once and saves c M a call.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from policies.model import Prices

OutputKind = Literal["run", "git", "search", "edit", "read", "lookup", "sql", "copy", "other"]

STUB_TOKENS = 40
EXPAND_OUTPUT = 60
"""Output tokens of one expand call."""


@dataclass(frozen=True, slots=True)
class EconomicsOptions:
    """Constants of the money rules.

    `decide_cached`: decisions never assume a dearer cached read than this: beyond it a pure money
    optimum gets greedy and loses what the run still needs. `patience`: rent that must be paid before
    a fold, in units of its break. `last_use`: calls for which a group named by an action stays.
    `tail_calls`, `tail_tokens`, `tail_min_calls`: what a fold by rent leaves alone. `min_fold`:
    least tokens worth a fold. `miss_worth`: tokens that one missed need is worth beyond its money.
    `small`: windows below this are left alone. `excerpts`: shorten outputs of `excerpt_from`
    tokens and more, but not file reads, once they were seen.
    """

    decide_cached: float = 0.1
    patience: float = 3.0
    last_use: int = 40
    tail_calls: int = 10
    tail_tokens: int = 12_000
    tail_min_calls: int = 5
    min_fold: int = 2_000
    miss_worth: int = 5_000
    small: int = 10_000
    excerpts: bool = True
    excerpt_from: int = 1_000


def decision_prices(prices: Prices, options: EconomicsOptions) -> Prices:
    """The prices to decide with."""
    return Prices(min(prices.cached, options.decide_cached), prices.write, prices.output)


def break_cost(behind: float, prices: Prices) -> float:
    """What it costs to write `behind` tokens again that would have been read from the cache."""
    return max(0.0, prices.write - prices.cached) * behind


def calls_to_break_even(removed: float, behind: float, prices: Prices, miss_cost: float = 0.0) -> float:
    """After how many calls a rewrite has earned its break: (w - c)/c x A/M + misses/(c M)."""
    saved = prices.cached * removed
    if saved <= 0:
        return math.inf
    return (break_cost(behind, prices) + miss_cost) / saved


def miss_cost(tokens: float, window: float, prices: Prices, worth: float = 0.0) -> float:
    """One missed need: the item again at list price, the window once more cached, the expand call itself."""
    return tokens + prices.cached * window + prices.output * EXPAND_OUTPUT + worth


def best_period(behind: float, growth: float, prices: Prices) -> float:
    """Calls between folds that cost least when the window grows by `growth` tokens a call."""
    if growth <= 0 or prices.cached <= 0:
        return math.inf
    return math.sqrt(2 * break_cost(behind, prices) / (prices.cached * growth))


def hold_horizon(tokens: float, window: float, prices: Prices) -> float:
    """Hold an item only if its next use is nearer than so many calls; else fetching it again is cheaper."""
    if prices.cached <= 0 or tokens <= 0:
        return math.inf
    return 1 / prices.cached + window / tokens + EXPAND_OUTPUT * prices.output / (prices.cached * tokens)


def cliff_break_even(removed: float, behind: float, window: float, multiplier: float, prices: Prices) -> float:
    """Calls after which folding before a price cliff has paid. Nearly always few."""
    saved = (multiplier - 1) * prices.cached * window + multiplier * prices.cached * removed
    return break_cost(behind, prices) / saved if saved > 0 else math.inf


def rent(foldable: float, prices: Prices) -> float:
    """What one more call pays for carrying `foldable` tokens."""
    return prices.cached * max(0.0, foldable)


def is_rent_due(paid: float, behind: float, foldable: float, prices: Prices, options: EconomicsOptions) -> bool:
    """Has carrying cost so much that the break would have been cheaper, `patience` times over?"""
    return foldable >= options.min_fold and paid >= options.patience * break_cost(behind, prices)


# Share of outputs needed again later, by kind and size (under 150, under 600, 600 tokens and more),
# measured on recorded coding runs.
_NEEDED_AGAIN: dict[OutputKind, tuple[float, float, float]] = {
    "run": (0.05, 0.06, 0.17),
    "git": (0.09, 0.16, 0.30),
    "search": (0.08, 0.30, 0.38),
    "edit": (0.25, 0.22, 0.44),
    "read": (0.15, 0.20, 0.45),
    "lookup": (0.3, 0.5, 0.7),
    "sql": (0.01, 0.01, 0.01),
    "copy": (0.5, 0.5, 0.5),
    "other": (0.05, 0.10, 0.20),
}


def need_probability(kind: OutputKind, tokens: int) -> float:
    """How likely an output of this kind and size is needed again."""
    small, middle, large = _NEEDED_AGAIN[kind]
    return small if tokens < 150 else middle if tokens < 600 else large


def is_tail_mask_worth(
    probability: float, tokens: int, calls: int, window: float, prices: Prices, options: EconomicsOptions
) -> bool:
    """Stub an output right after it was seen: only what is hardly ever needed, and then only when it pays."""
    if probability > 0.1:
        return False
    cost = probability * miss_cost(tokens, window, prices, options.miss_worth) + STUB_TOKENS
    return prices.cached * (tokens - STUB_TOKENS) * calls > cost


_SHELL_TOOLS = re.compile(r"bash|shell|terminal|exec|command|console|\bsh\b|run", re.IGNORECASE)
_CHANGE_DIRECTORY = re.compile(r"^\s*(?:(?:ba|z)?sh\s+-l?c\s+)?(?:cd\s+\S+\s*(?:&&|;)\s*)*")
_BY_COMMAND: tuple[tuple[OutputKind, re.Pattern[str]], ...] = (
    ("edit", re.compile(r"^(?:sed\s+-i|tee\b|cat\s*>|cat\s*<<|patch\b|echo\b.*>|apply_patch\b|(?:create|insert)\b)")),
    ("search", re.compile(r"^(?:grep|rg|ag|find|ls|tree|fd|locate)\b|\|\s*grep\b")),
    ("read", re.compile(r"^(?:cat|head|tail|nl|awk|sed\s+-n|less|more|view|open)\b")),
    ("git", re.compile(r"^git\b")),
    ("run", re.compile(r"^(?:python\d?|pytest|make|npm|npx|node|go|cargo|tox|pip|yarn|mvn|gradle|docker)\b|^\./")),
)  # fmt: skip
_BY_TOOL: tuple[tuple[OutputKind, re.Pattern[str]], ...] = (
    ("copy", re.compile(r"expand", re.IGNORECASE)),
    ("sql", re.compile(r"sql|database|\bdb\b", re.IGNORECASE)),
    ("edit", re.compile(r"edit|write|replace|patch|create_file|insert", re.IGNORECASE)),
    ("search", re.compile(r"search|grep|glob|find_file|list|\bls\b", re.IGNORECASE)),
    ("run", re.compile(r"test|build|\blogs?\b|run", re.IGNORECASE)),
    ("read", re.compile(r"read|view|open|cat|file", re.IGNORECASE)),
    ("lookup", re.compile(r"get|lookup|fetch|details|calculate|query|find", re.IGNORECASE)),
)


def output_kind(tool: str, source: str) -> OutputKind:
    """What a tool result is, from the tool's name and the call's key argument."""
    if _SHELL_TOOLS.search(tool) or not tool:
        command = _CHANGE_DIRECTORY.sub("", source, count=1)
        for kind, pattern in _BY_COMMAND:
            if pattern.search(command):
                return kind
        return "other"
    if tool.lower().endswith("editor"):
        return "read" if source.startswith("view") else "edit"
    for kind, pattern in _BY_TOOL:
        if pattern.search(tool):
            return kind
    return "other"
