"""Judges windows by what the recorded next action used: recall, steps, tasks; word for word and with expand credit."""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from policies.model import Candidate
from policies.reading import read
from proxy.demo.bill import CACHE_LEAST, CACHE_STEP
from proxy.evaluation.recorded.runs import Fact, Run, Step
from proxy.evaluation.recorded.windows import Window

MAX_EXPANDS = 2
EXPAND_SHARE = 0.25
RARE_SHARE = 0.1
REUSE_FROM = 20_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """One binding step: what it missed, and which items a model could have fetched."""

    step: Step
    missed: tuple[Fact, ...]
    still: tuple[Fact, ...]
    fetched: tuple[int, ...]
    window: Window


@dataclass(slots=True)
class Score:
    """A run's score under one policy at one budget."""

    name: str
    needs: int = 0
    met: int = 0
    met_expanded: int = 0
    steps: int = 0
    passed: int = 0
    passed_expanded: int = 0
    decisive: int = 0
    decisive_passed: int = 0
    decisive_passed_expanded: int = 0
    expands: int = 0
    expand_tokens: int = 0
    over: int = 0
    invalid: int = 0
    windows: int = 0
    rebuilds: int = 0
    used: float = 0.0
    reused: int = 0
    reusable: int = 0
    cpu_s: list[float] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    bill: list[tuple[int, int, int]] = field(default_factory=list)  # input, cached, tokens fetched; of every window
    breaks: int = 0

    def is_pass(self, *, expanded: bool = False) -> bool:
        met = self.met_expanded if expanded else self.met
        passed = self.decisive_passed_expanded if expanded else self.decisive_passed
        return met >= 0.9 * self.needs and passed >= 0.9 * self.decisive


Labels = Callable[[Run], Sequence[Step]]


def judge(
    run: Run, windows: Iterable[Window], budget: int, steps: Sequence[Step] | None = None, *, is_all: bool = False
) -> Score:
    """Play a run's windows against its labels. Only steps count whose prefix is over the budget, unless `is_all`."""
    score = Score(run.name)
    wanted = {step.index: step for step in (run.steps if steps is None else steps)}
    sums = [0]
    for item in run.items:
        sums.append(sums[-1] + item.tokens)
    words = _words(run)
    before: Window | None = None
    for window in windows:
        is_binding = is_all or sums[window.step] > budget
        _charge(score, before, window)
        if is_binding:
            score.windows += 1
            score.over += window.tokens > budget
            score.invalid += not window.is_valid
            score.used += window.tokens / budget
            score.cpu_s.append(window.cpu_s)
            score.rebuilds += window.is_new
            if before is not None and run.tokens >= REUSE_FROM:
                score.reusable += before.tokens
                score.reused += _common(before, window)
        before = window
        step = wanted.get(window.step)
        if is_binding and step is not None and _is_feasible(run, step, budget):
            _count(score, run, window, step, budget, words)
    return score


def _count(score: Score, run: Run, window: Window, step: Step, budget: int, words: _Words) -> None:
    is_sound = window.is_valid and window.tokens <= budget
    missed = [fact for fact in step.facts if not (is_sound and is_met(fact, run, window))]
    fetched = expansions(run, window, step, missed, budget, words) if is_sound else []
    still = [fact for fact in missed if not any(source in fetched for source in fact.sources)]
    score.verdicts.append(Verdict(step, tuple(missed), tuple(still), tuple(fetched), window))
    if fetched:
        tokens, cached, _ = score.bill[-1]
        score.bill[-1] = (tokens, cached, sum(run.items[index].tokens for index in fetched))
    score.needs += len(step.facts)
    score.met += len(step.facts) - len(missed)
    score.met_expanded += len(step.facts) - len(still)
    score.steps += 1
    score.passed += not missed
    score.passed_expanded += not still
    score.expands += len(fetched)
    score.expand_tokens += sum(run.items[index].tokens for index in fetched)
    if step.is_decisive:
        score.decisive += 1
        score.decisive_passed += not missed
        score.decisive_passed_expanded += not still


def _charge(score: Score, before: Window | None, window: Window) -> None:
    """What the provider's cache keeps of the window before, and whether it had to read again what it had read."""
    common = _common(before, window) if before is not None else 0
    cached = common // CACHE_STEP * CACHE_STEP if common >= CACHE_LEAST else 0
    score.breaks += before is not None and common < before.tokens - before.blocks[-1][1]
    score.bill.append((window.tokens, cached, 0))


def is_met(fact: Fact, run: Run, window: Window) -> bool:
    """Is a source there whole, or the atom inside its own line? Lines are kept whole, so its neighbours are with it."""
    for source in fact.sources:
        if source in window.full or source in window.whole_notes:
            return True
        if not fact.is_whole and _holds(window.notes.get(source, "").partition("\n")[2], fact.atom):
            return True
    return False


def _holds(text: str, atom: str) -> bool:
    """Does the text hold the atom, a short one as a word of its own?"""
    if atom not in text:
        return False
    return len(atom) >= 12 or re.search(rf"(?<!\w){re.escape(atom)}(?!\w)", text) is not None


def expansions(run: Run, window: Window, step: Step, missed: Sequence[Fact], budget: int, words: _Words) -> list[int]:
    """Items that a model could fetch: a line names them, shares a rare word with what goes on, and they are small."""
    fetched: list[int] = []
    now = words.of(run.items[step.index])
    newest = run.items[step.index - 1].call
    for candidate in reversed(run.items[: step.index]):
        if candidate.call != newest:
            break
        now = now | words.of(candidate)
    for fact in missed:
        if len(fetched) >= MAX_EXPANDS:
            break
        if any(source in fetched for source in fact.sources):
            continue
        for source in reversed(fact.sources):
            line = window.notes.get(source) or window.stubs.get(source)
            if line is None or run.items[source].tokens > EXPAND_SHARE * budget:
                continue
            if any(word in now and words.is_rare(word, step.index) for word in words.in_text(line)):
                fetched.append(source)
                break
    return fetched


def _words(run: Run) -> _Words:
    """The run's words; those of the run judged last are kept."""
    if run.name not in _KEPT:
        _KEPT.clear()
        _KEPT[run.name] = _Words(run)
    return _KEPT[run.name]


_KEPT: dict[str, _Words] = {}


class _Words:
    """Words of a run's items, and how many earlier items hold each."""

    def __init__(self, run: Run) -> None:
        self._of = [frozenset(read(item).words) for item in run.items]
        self._held: dict[str, list[int]] = {}
        self._told: dict[str, frozenset[str]] = {}
        for index, words in enumerate(self._of):
            for word in words:
                self._held.setdefault(word, []).append(index)

    def of(self, item: Candidate) -> frozenset[str]:
        return self._of[item.index]

    def in_text(self, text: str) -> frozenset[str]:
        if text not in self._told:
            self._told[text] = frozenset(read(Candidate("", 0, 0, 0, "user", (0, 0, 0, 0, 0, 1), text=text)).words)
        return self._told[text]

    def is_rare(self, word: str, step: int) -> bool:
        held = bisect_left(self._held.get(word, ()), step)
        return held <= max(3, RARE_SHARE * step)


def _is_feasible(run: Run, step: Step, budget: int) -> bool:
    """Could a window that fetches exactly the sources hold them all?"""
    items = run.items[: step.index]
    newest = items[-1].call
    window = {c.index for c in items if c.is_pinned or c.call == newest}
    for fact in step.facts:
        if window.isdisjoint(fact.sources):
            window.add(min(fact.sources, key=lambda source: (items[source].tokens, source)))
    return sum(items[index].tokens for index in window) <= budget


def _common(before: Window, after: Window) -> int:
    common = 0
    for old, new in zip(before.blocks, after.blocks, strict=False):
        if old != new:
            break
        common += old[1]
    return common


@dataclass(frozen=True, slots=True)
class Total:
    """Scores over runs: macro over the runs that have binding steps."""

    runs: int
    needs: int
    pooled: float  # recall over all needs at once: long runs weigh more
    recall: float
    step: float
    tasks: int
    recall_expanded: float
    step_expanded: float
    tasks_expanded: int
    expands: float
    expand_tokens: float
    reuse: float
    over: int
    invalid: int
    windows: int
    used: float
    cpu_ms: float
    cpu_p95_ms: float


def total(scores: Sequence[Score]) -> Total:
    some = [score for score in scores if score.steps]
    n = max(1, len(some))
    cpu = sorted(1e3 * s for score in scores for s in score.cpu_s) or [0.0]
    steps = sum(score.steps for score in some) or 1
    return Total(
        runs=len(some),
        needs=sum(s.needs for s in some),
        pooled=sum(s.met for s in some) / max(1, sum(s.needs for s in some)),
        recall=sum(s.met / s.needs for s in some) / n,
        step=sum(s.passed / s.steps for s in some) / n,
        tasks=sum(s.is_pass() for s in some),
        recall_expanded=sum(s.met_expanded / s.needs for s in some) / n,
        step_expanded=sum(s.passed_expanded / s.steps for s in some) / n,
        tasks_expanded=sum(s.is_pass(expanded=True) for s in some),
        expands=sum(s.expands for s in some) / steps,
        expand_tokens=sum(s.expand_tokens for s in some) / steps,
        reuse=sum(s.reused for s in scores) / max(1, sum(s.reusable for s in scores)),
        over=sum(s.over for s in scores),
        invalid=sum(s.invalid for s in scores),
        windows=sum(s.windows for s in scores),
        used=sum(s.used for s in scores) / max(1, sum(s.windows for s in scores)),
        cpu_ms=sum(cpu) / len(cpu),
        cpu_p95_ms=cpu[int(0.95 * (len(cpu) - 1))],
    )


def paired(one: Sequence[Score], other: Sequence[Score], what: Callable[[Score], float], seed: int = 1) -> str:
    """Mean difference over the same runs with its 95 % bootstrap interval, in points."""
    by_name = {score.name: score for score in other}
    pairs = [what(s) - what(by_name[s.name]) for s in one if s.steps and by_name[s.name].steps]
    if not pairs:
        return "no runs"
    chance = random.Random(seed)
    means = sorted(sum(chance.choice(pairs) for _ in pairs) / len(pairs) for _ in range(2_000))
    mean = 100 * sum(pairs) / len(pairs)
    return f"{mean:+.1f} [{100 * means[50]:+.0f},{100 * means[-51]:+.0f}]"
