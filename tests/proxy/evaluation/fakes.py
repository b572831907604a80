"""A small task whose outcome is arithmetic, for tests of what runs and sums up tasks."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from proxy.evaluation.results import CallBill, Check, MissingItem, TaskResult
from proxy.evaluation.task import Budget

SHARE = {"full": 1.0, "half": 0.5, "quarter": 0.25}


@dataclass(frozen=True, slots=True)
class FakeTask:
    """Ten steps. Step `i` is passed where the budget's share, and the policy's bonus, reach it."""

    number: int
    family: str = "fake"
    source: str = "recorded"
    fate: str = ""
    """`raise` or `die`, or a file that every run is noted in."""

    @property
    def name(self) -> str:
        return f"task-{self.number:02}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def run(self, policy: str, budget: Budget) -> TaskResult:
        if self.fate == "raise":
            raise ZeroDivisionError(f"task {self.number} cannot be done")
        if self.fate == "die":
            os._exit(7)
        if self.fate:
            with Path(self.fate).open("a", encoding="utf-8") as file:
                file.write(f"{self.name} {policy} {budget.name}\n")
        return result_of(self, policy, budget.name)


def result_of(task: FakeTask, policy: str, budget: str) -> TaskResult:
    share = SHARE.get(budget, 0.1) + (0.2 if policy == "sticky" else 0.0) - task.number / 100
    met = max(0, min(10, round(10 * share)))
    expanded = min(10, met + (3 if policy == "sticky" else 0))
    checks = tuple(Check(f"step {i}", i < met, i < expanded, is_decisive=i % 2 == 0) for i in range(10))
    missing = tuple(
        MissingItem(
            check=f"step {i}", what="path <src/a.py>", item=f"{task.number}{i:03}", role="tool", tokens=1200 + i,
            form="absent", distance=9000 + i, score=0.25, reason="older than the newest groups",
        )
        for i in range(met, 10)
    )  # fmt: skip
    size = 10_000 + 1_000 * task.number
    calls = tuple(
        CallBill(input=int(size * share) + 100 * i, cached=int(size * share / 2), output=50) for i in range(4)
    )
    direct = tuple(CallBill(input=size + 1_000 * i, cached=size - 1_000, output=50) for i in range(4))
    return TaskResult(
        task=task.name, family=task.family, source=task.source, policy=policy, budget=budget,
        budget_tokens=int(size * SHARE.get(budget, 0.1)), checks=checks, missing=missing, needs=10, needs_met=met,
        needs_met_expanded=expanded, copies=4, copies_met=min(4, met), passed=met >= 9, passed_expanded=expanded >= 9,
        calls=calls, direct_calls=direct, reuse=0.9, breaks=1, budget_use=0.8, over_budget=0, invalid_windows=0,
        expansions=expanded - met, expansion_tokens=100 * (expanded - met),
    )  # fmt: skip
