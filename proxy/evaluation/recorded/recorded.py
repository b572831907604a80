"""A recorded run as a task of the matrix: replayed under a policy at a budget, judged by what its next actions used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from policies import registry
from policies.contract import Policy
from policies.selector import SelectorOptions
from proxy.errors import ConfigError
from proxy.evaluation.estimate.transcripts import read_path
from proxy.evaluation.recorded.copies import copied_runs
from proxy.evaluation.recorded.judge import Score, Verdict, judge
from proxy.evaluation.recorded.labels import common_atoms, derive, group_of
from proxy.evaluation.recorded.renaming import renamed
from proxy.evaluation.recorded.rows import Oracle, RandomDrop, rare_words
from proxy.evaluation.recorded.runs import Fact, Run, Step, run_of
from proxy.evaluation.recorded.windows import Server
from proxy.evaluation.results import CallBill, Check, MissingItem, TaskResult
from proxy.evaluation.task import Budget
from proxy.tokenizer import Tokenizer

ONLY_HERE = ("oracle", "random_drop", "rare_words")
"""Policies that are no use in the product: bounds that a suite must show to be above and below the others."""
LEAST_TOKENS = 4000
_OUTPUT = 60


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """`messages` are Chat messages; with a `seed` their numbers and names are others."""

    name: str
    messages: tuple[Mapping[str, Any], ...]
    family: str
    seed: int = 1
    common: frozenset[str] = frozenset()
    source: str = "recorded"

    @property
    def digest(self) -> str:
        return sha256(
            f"{self.seed} {sorted(self.common)} {self.messages!r}".encode("utf-8", "surrogatepass")
        ).hexdigest()[:16]

    def run(self, policy: str, budget: Budget) -> TaskResult:
        run, copies = labelled(self)
        limit = 2 * run.tokens if budget.share == 1 else budget.of(run.pinned, run.tokens)
        is_all = limit >= run.tokens
        index = SelectorOptions().index if policy in ("selector", "greedy") else 0.0
        server = Server(run, policy_of(policy, run, run.steps), Tokenizer().count, index=index)
        windows = list(server.windows(limit))
        score = judge(run, windows, limit, is_all=is_all)
        second = judge(run, windows, limit, copies, is_all=is_all)
        return _result(self, run, policy, budget, limit, score, second)


def labelled(task: RecordedTask) -> tuple[Run, Sequence[Step]]:
    """The run with its needs, and by the second extractor. The last one is kept: a task runs under several policies."""
    key = task.digest
    if key not in _KEPT:
        messages = renamed(task.messages, task.seed) if task.seed else list(task.messages)
        run = derive(run_of(task.name, messages, Tokenizer(), task.family), messages, task.common)
        _KEPT.clear()
        _KEPT[key] = run, copied_runs(run)
    return _KEPT[key]


_KEPT: dict[str, tuple[Run, Sequence[Step]]] = {}


def policy_of(name: str, run: Run, steps: Sequence[Step]) -> Policy:
    """One of the product's, or one that exists only here. Raises `ConfigError`."""
    if name == "oracle":
        return Oracle(run, steps)
    if name == "random_drop":
        return RandomDrop()
    if name == "rare_words":
        return rare_words()
    try:
        return registry.build(name, {})
    except registry.PolicyError as error:
        known = ", ".join((*registry.names(), *ONLY_HERE))
        raise ConfigError(f"there is no policy {name!r}", hint=f"There are: {known}.") from error


def recorded_tasks(paths: Sequence[Path], *, seed: int = 1) -> list[RecordedTask]:
    """The runs in files and folders that are long enough to be worth a budget. Raises `ConfigError`."""
    found = [
        talk
        for path in paths
        for talk in read_path(path)
        if sum(len(str(m.get("content") or "")) for m in talk.messages) >= 4 * LEAST_TOKENS and talk.calls > 2
    ]
    names = [talk.name.removesuffix(".jsonl").removesuffix(".json") for talk in found]
    common = common_atoms((group_of(name), talk.messages) for name, talk in zip(names, found, strict=True))
    return [
        RecordedTask(name, talk.messages, name.split("-")[0], seed, common)
        for name, talk in zip(names, found, strict=True)
    ]


def _result(
    task: RecordedTask, run: Run, policy: str, budget: Budget, limit: int, score: Score, second: Score
) -> TaskResult:
    checks = tuple(
        Check(f"step {one.step.index}", not one.missed, not one.still, one.step.is_decisive) for one in score.verdicts
    )
    missing = tuple(_missing(run, one, fact) for one in score.verdicts for fact in one.missed)
    before, direct = 0, []
    for step in run.calls():
        size = sum(item.tokens for item in run.items[:step])
        direct.append(CallBill(size, before // 128 * 128 if before >= 1024 else 0, 0))
        before = size
    calls: list[CallBill] = []
    for tokens, cached, fetched in score.bill:
        calls.append(CallBill(tokens, cached, 0))
        if fetched:
            calls.append(CallBill(tokens + fetched, tokens // 128 * 128, _OUTPUT, is_expand=True))
    return TaskResult(
        task=task.name, family=task.family, source=task.source, policy=policy, budget=budget.name, budget_tokens=limit,
        checks=checks, missing=missing, needs=score.needs, needs_met=score.met, needs_met_expanded=score.met_expanded,
        copies=second.needs, copies_met=second.met,
        passed=score.is_pass(), passed_expanded=score.is_pass(expanded=True),
        calls=tuple(calls), direct_calls=tuple(direct),
        reuse=round(score.reused / score.reusable, 4) if score.reusable else 1.0, breaks=score.breaks,
        budget_use=round(score.used / score.windows, 4) if score.windows else 0.0, over_budget=score.over,
        invalid_windows=score.invalid, expansions=score.expands, expansion_tokens=score.expand_tokens,
    )  # fmt: skip


def _missing(run: Run, verdict: Verdict, fact: Fact) -> MissingItem:
    source = run.items[max(fact.sources)]
    window, step = verdict.window, verdict.step.index
    form = "excerpt" if source.index in window.notes else "stub" if source.index in window.stubs else "absent"
    return MissingItem(
        check=f"step {step}", what=fact.atom[:120], item=source.id, role=source.kind, tokens=source.tokens, form=form,
        distance=sum(item.tokens for item in run.items[source.index + 1 : step]),
        reason="named, not shown" if form != "absent" else "left out", is_followable=source.index in verdict.fetched,
    )  # fmt: skip
