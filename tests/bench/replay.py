"""Replays recorded runs against policies at half and quarter budgets: do windows still hold what each action used?

Run it with `python -m tests.bench.replay FOLDER [--max-tokens N] [--rows NAME,NAME] [--shares 0.5,0.25]`; FOLDER
holds one `.jsonl` a run with its labels beside it. Weights were fitted on such runs: figures on those are in sample.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from policies.contract import Policy
from policies.draft import Draft, group_ranges, last_exchange
from policies.last_n import LastN
from policies.model import Choice, Form, Selection, Situation
from policies.selector import Greedy, Selector, SelectorOptions
from proxy.tokenizer import Tokenizer
from tests.bench.replay_copies import copied_runs
from tests.bench.replay_judge import Score, judge, paired, total
from tests.bench.replay_runs import Run, Step, load_runs
from tests.bench.replay_windows import Server


class RandomDrop:
    """Drops whole groups at random until the rest fits; the last three exchanges stay. No good policy is worse."""

    name = "random"

    def select(self, situation: Situation) -> Selection:
        candidates = situation.candidates
        edge = last_exchange(candidates)
        newest = candidates[-1].call if candidates else 0
        groups = [
            group
            for group in group_ranges(candidates)
            if group.stop <= edge
            and all(
                candidates[i].is_seen and not candidates[i].is_pinned and candidates[i].call < newest - 2 for i in group
            )
        ]
        random.Random(len(candidates)).shuffle(groups)
        return _without(situation, groups)


class StickyLastN:
    """The newest groups; when full it is cut to a share of the room, then appended to."""

    name = "last_n_sticky"

    def __init__(self, low: float) -> None:
        self.low = low

    def select(self, situation: Situation) -> Selection:
        draft = Draft(situation)
        if draft.tokens <= situation.budget.room:
            return Selection(tuple(draft.finish("").choices))
        pins = sum(c.tokens for c in situation.candidates if c.is_pinned)
        low = pins + int(self.low * (situation.budget.room - pins))
        edge = last_exchange(situation.candidates)
        groups = [
            group
            for group in group_ranges(situation.candidates)
            if group.stop <= edge and all(not situation.candidates[i].is_pinned for i in group)
        ]
        return _without(situation, groups, low)


def _without(situation: Situation, groups: Sequence[range], room: int | None = None) -> Selection:
    left = sum(c.tokens for c in situation.candidates) - (situation.budget.room if room is None else room)
    gone: set[int] = set()
    for group in groups:
        if left <= 0:
            break
        gone.update(group)
        left -= sum(situation.candidates[i].tokens for i in group)
    return Selection(
        tuple(Choice(c.id, Form.ABSENT if c.index in gone else Form.FULL, "") for c in situation.candidates)
    )


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    make: Callable[[], Policy]
    index: float = 0.0


def _greedy(index: float = 0.0, weights: str = "A", tail: float = 0.3) -> Callable[[], Policy]:
    return lambda: Greedy(SelectorOptions(weights=weights, tail=tail, index=index))


def _sticky(low: float, index: float, weights: str = "A") -> Callable[[], Policy]:
    return lambda: Selector(SelectorOptions(weights=weights, tail=0.3, low=low, index=index))


ROWS = (
    Row("keep-last", LastN),
    Row("keep-last-sticky", lambda: StickyLastN(0.75)),
    Row("random", RandomDrop),
    Row("A", _greedy()),
    Row("A+index", _greedy(0.05), 0.05),
    Row("A-sticky-85", _sticky(0.85, 0.0)),
    Row("A-sticky-85+index", _sticky(0.85, 0.05), 0.05),
    Row("A-sticky-75+index", _sticky(0.75, 0.05), 0.05),
    Row("B", _greedy(weights="B")),
)


def play(row: Row, runs: Sequence[Run], share: float, count: Callable[[str], int]) -> tuple[list[Score], list[Score]]:
    """Scores by the labels, and by the second extractor: copies of six tokens."""
    first: list[Score] = []
    second: list[Score] = []
    for run in runs:
        budget = run.budget(share)
        windows = list(Server(run, row.make(), count, index=row.index).windows(budget))
        first.append(judge(run, windows, budget))
        second.append(judge(run, windows, budget, COPIES[run.name]))
    return first, second


COPIES: dict[str, list[Step]] = {}


def _report(name: str, share: float, first: Sequence[Score], second: Sequence[Score], base: Sequence[Score]) -> None:
    a, b = total(first), total(second)
    print(
        f"{share:4} {name:18} {a.recall:.3f} / {a.step:.3f} / {a.tasks:2} of {a.runs}"
        f" | +x {a.recall_expanded:.3f} / {a.step_expanded:.3f} / {a.tasks_expanded:2}, {a.expands:.2f} a step"
        f" of {a.expand_tokens:,.0f} tokens | reuse {a.reuse:.2f} | copies {b.recall:.3f} / {b.step:.3f} / {b.tasks}"
        f" of {b.runs} | used {a.used:.2f}, over {a.over}, invalid {a.invalid} of {a.windows}"
        f" | CPU {a.cpu_ms:.1f} ms, p95 {a.cpu_p95_ms:.1f}"
    )
    if base:
        steps = paired(first, base, lambda score: score.passed / score.steps)
        tasks = paired(first, base, lambda score: float(score.is_pass()))
        print(f"{'':24}against keep-last: steps {steps}, tasks {tasks}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Replay recorded runs against policies.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--max-tokens", type=int, default=10_000_000)
    parser.add_argument("--rows", default=",".join(row.name for row in ROWS))
    parser.add_argument("--shares", default="0.5,0.25")
    given = parser.parse_args(arguments)
    count = Tokenizer().count
    runs = [run for run in load_runs(given.folder, Tokenizer()) if run.tokens <= given.max_tokens]
    COPIES.update((run.name, copied_runs(run)) for run in runs)
    wanted = given.rows.split(",")
    print("recall / step / tasks, word for word | with expand credit | prefix reuse | second extractor | budget | CPU")
    for share in map(float, given.shares.split(",")):
        base: list[Score] = []
        for row in ROWS:
            if row.name not in wanted:
                continue
            first, second = play(row, runs, share, count)
            _report(row.name, share, first, second, base)
            base = base or first


if __name__ == "__main__":
    main()
