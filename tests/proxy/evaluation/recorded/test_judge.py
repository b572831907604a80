"""Verdicts: a source in sight, an atom in its own line, a stub that leads there; and what is no window at all."""

from __future__ import annotations

from dataclasses import replace

from proxy.evaluation.recorded.judge import expansions, is_met, judge, paired, total
from proxy.evaluation.recorded.runs import Fact, Step
from proxy.evaluation.recorded.windows import Window
from tests.proxy.evaluation.recorded.made import run

RUN = run()
STEP = next(step for step in RUN.steps if step.is_decisive and any(not fact.is_whole for fact in step.facts))
FACT = next(fact for fact in STEP.facts if not fact.is_whole)
SOURCE = FACT.sources[0]


def window(**parts: object) -> Window:
    base = Window(STEP.index, frozenset(), tokens=100, blocks=(("m0000", 100),))
    return replace(base, **parts)  # type: ignore[arg-type]


def test_met_by_the_source_or_by_its_own_line() -> None:
    assert is_met(FACT, RUN, window(full=frozenset({SOURCE})))
    assert is_met(FACT, RUN, window(notes={SOURCE: f"[#m read 1/40]\n{FACT.atom}"}))
    assert not is_met(FACT, RUN, window(notes={SOURCE + 2: f"[#m read 1/40]\n{FACT.atom}"}))
    assert not is_met(FACT, RUN, window(notes={SOURCE: "[#m read]\nsomething else"}))
    whole = Fact(FACT.atom, FACT.sources, "far", is_whole=True)
    assert not is_met(whole, RUN, window(notes={SOURCE: f"x\n{FACT.atom}"})) and is_met(
        whole, RUN, window(whole_notes=frozenset({SOURCE}))
    )


def test_the_list_of_a_full_run_passes() -> None:
    windows = [
        Window(
            step,
            frozenset(range(step)),
            tokens=sum(c.tokens for c in RUN.items[:step]),
            blocks=tuple((c.id, c.tokens) for c in RUN.items[:step]),
        )
        for step in RUN.calls()
    ]
    score = judge(RUN, windows, 10**6, is_all=True)
    assert score.is_pass() and score.met == score.needs > 0 and score.breaks == 0
    assert not judge(RUN, windows, 10**6).steps  # nothing binds
    over = judge(RUN, windows, RUN.budget(0.5))
    assert over.over and not over.met and not over.is_pass()


def test_an_invalid_window_passes_nothing() -> None:
    windows = [
        Window(step, frozenset(range(step)), tokens=9, blocks=(("m", 9),), is_valid=False) for step in RUN.calls()
    ]
    score = judge(RUN, windows, RUN.budget(0.5))
    assert score.invalid == score.windows > 0 and score.met == 0


def test_what_can_be_fetched() -> None:
    class Words:
        def of(self, item: object) -> frozenset[str]:
            return frozenset({"table_00"})

        def in_text(self, text: str) -> frozenset[str]:
            return frozenset(text.split())

        def is_rare(self, word: str, step: int) -> bool:
            return word == "table_00"

    step = Step(STEP.index, True, (FACT,))
    for line, budget, expected in (
        ("read table_00", 10**6, [SOURCE]),
        ("read other", 10**6, []),
        ("read table_00", 10, []),
    ):
        assert expansions(RUN, window(stubs={SOURCE: line}), step, [FACT], budget, Words()) == expected  # type: ignore[arg-type]


def test_sums_and_intervals() -> None:
    windows = [Window(step, frozenset(range(step)), tokens=9, blocks=(("m", 9),)) for step in RUN.calls()]
    good = judge(RUN, windows, RUN.budget(0.5))
    bad = judge(RUN, [replace(one, full=frozenset()) for one in windows], RUN.budget(0.5))
    assert total([good]).recall == 1.0 > total([bad]).recall and total([good]).tasks == 1
    assert paired([good], [bad], lambda score: score.passed / score.steps).startswith("+100")
