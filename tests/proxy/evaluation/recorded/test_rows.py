"""The bounds of a suite: an oracle passes all; chance and a cheat do not beat the newest."""

from __future__ import annotations

from collections.abc import Callable

from policies.contract import Policy
from policies.last_n import LastN
from proxy.evaluation.recorded.copies import copied_runs
from proxy.evaluation.recorded.judge import Score, judge
from proxy.evaluation.recorded.rows import ROWS, Oracle, RandomDrop, StickyLastN, rare_words
from proxy.evaluation.recorded.runs import Run
from proxy.evaluation.recorded.windows import Server
from proxy.tokenizer import Tokenizer
from tests.proxy.evaluation.recorded.made import run

RUNS = [run(seed) for seed in range(1, 9)]


def played(make: Callable[[Run], Policy], share: float, *, by_copies: bool = False) -> list[Score]:
    scores = []
    for made in RUNS:
        budget = made.budget(share)
        windows = Server(made, make(made), Tokenizer().count, index=0.0).windows(budget)
        scores.append(judge(made, windows, budget, copied_runs(made) if by_copies else None))
    return scores


def recall(scores: list[Score]) -> float:
    return sum(score.met for score in scores) / sum(score.needs for score in scores)


def test_the_oracle_passes_everything() -> None:
    for share in (0.5, 0.25):
        scores = played(lambda made: Oracle(made, made.steps), share)
        assert recall(scores) == 1.0 and all(score.is_pass() and not score.over for score in scores)


def test_chance_and_the_cheat_are_below_keep_last() -> None:
    last = recall(played(lambda _: LastN(), 0.5))
    assert recall(played(lambda _: RandomDrop(), 0.5)) < last < 1.0
    by_copies = recall(played(lambda _: LastN(), 0.5, by_copies=True))
    assert by_copies > 0 and rare_words().name == "greedy"


def test_a_sticky_baseline_keeps_the_prefix() -> None:
    def kept(scores: list[Score]) -> float:
        return sum(cached for score in scores for _, cached, _ in score.bill) / sum(
            t for s in scores for t, _, _ in s.bill
        )

    assert kept(played(lambda _: StickyLastN(0.6), 0.5)) > kept(played(lambda _: LastN(), 0.5))


def test_names_are_unique() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
