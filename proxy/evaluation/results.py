"""What one task under one policy at one budget came to. Pure values, and their form in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that had to be done right. `passed` counts what the window said by itself; `passed_expanded` also what
    was fetched."""

    name: str
    passed: bool
    passed_expanded: bool
    is_decisive: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class MissingItem:
    """An item that a failed check needed and did not see. `distance` is in tokens, back from the end of the list."""

    check: str
    what: str
    item: str
    role: str
    tokens: int
    form: str
    distance: int
    score: float | None = None
    reason: str = ""
    is_followable: bool = False


@dataclass(frozen=True, slots=True)
class CallBill:
    """Tokens of one call to the provider; a price model makes money of them."""

    input: int
    cached: int
    output: int
    is_expand: bool = False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task, one policy, one budget. `budget` is as it was asked for, `budget_tokens` what it came to.

    `calls` are what the provider billed, `direct_calls` what the whole list would have cost. `reuse` is the share of
    each prompt that the next one kept; `budget_use` the largest request as a share of the budget.
    """

    task: str
    family: str
    source: str
    policy: str
    budget: str
    budget_tokens: int
    checks: tuple[Check, ...] = ()
    missing: tuple[MissingItem, ...] = ()
    needs: int = 0
    needs_met: int = 0
    needs_met_expanded: int = 0
    copies: int = 0
    copies_met: int = 0
    passed: bool = False
    passed_expanded: bool = False
    calls: tuple[CallBill, ...] = ()
    direct_calls: tuple[CallBill, ...] = ()
    reuse: float = 1.0
    breaks: int = 0
    budget_use: float = 0.0
    over_budget: int = 0
    invalid_windows: int = 0
    expansions: int = 0
    expansion_tokens: int = 0
    error: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.task, self.policy, self.budget

    @property
    def steps(self) -> int:
        return len(self.checks)

    @property
    def steps_passed(self) -> int:
        return sum(check.passed for check in self.checks)

    @property
    def steps_passed_expanded(self) -> int:
        return sum(check.passed_expanded for check in self.checks)


def to_json(result: TaskResult) -> dict[str, Any]:
    """Plain values; `from_json` is its inverse."""
    return asdict(result)


def from_json(value: Mapping[str, Any]) -> TaskResult:
    """Raises KeyError or TypeError for what `to_json` did not write."""
    lists = {
        "checks": tuple(Check(**one) for one in value["checks"]),
        "missing": tuple(MissingItem(**one) for one in value["missing"]),
        "calls": tuple(CallBill(**one) for one in value["calls"]),
        "direct_calls": tuple(CallBill(**one) for one in value["direct_calls"]),
    }
    return TaskResult(**{**value, **lists})
