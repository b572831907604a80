"""What the policies cost: a table of bills over made sessions (`pytest -s` shows it), and bars for the default."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from policies.contract import Policy
from policies.last_n import LastN, LastNOptions
from policies.model import Choice, Form, Prices, Selection, Situation
from policies.passthrough import Passthrough
from policies.sticky import Sticky, StickyOptions
from tests.policies.simulate import Bill, Session, big_outputs, coding_run, recorded, simulate

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "traces"
PRICES = {
    "0.05": Prices(cached=0.05),
    "0.1": Prices(cached=0.1),
    "0.25": Prices(cached=0.25),
    "0.5": Prices(cached=0.5),
    "0.1, write 1.25": Prices(cached=0.1, write=1.25),
}
BIG = [big_outputs(seed) for seed in (7, 8, 9)]
RUNS = [coding_run(seed, calls) for calls, seed in ((40, 1), (40, 2), (100, 1), (100, 2), (250, 1))]
SHORT = [coding_run(seed, 12) for seed in (1, 2, 3)]


class SlidingMask:
    """Stubs all but the newest three results at every call: what a sticky policy must beat."""

    name = "sliding_mask"

    def select(self, situation: Situation) -> Selection:
        results = [c for c in situation.candidates if c.kind == "tool_result"]
        old = {c.id for c in results[:-3] if c.is_seen and not c.is_pinned and c.costs[Form.STUB] >= 0}
        return Selection(tuple(Choice(c.id, Form.STUB if c.id in old else Form.FULL, "") for c in situation.candidates))


def arms() -> dict[str, Policy]:
    return {
        "direct": Passthrough(),
        "sliding mask": SlidingMask(),
        "last 20 messages": LastN(LastNOptions(messages=20)),
        "sticky, masks only": Sticky(StickyOptions(economics=False)),
        "sticky": Sticky(),
    }


@functools.cache
def bill(session: Session, arm: str, price: str) -> Bill:
    return simulate(session, arms()[arm], PRICES[price])


def ratios(sessions: list[Session], arm: str, price: str = "0.1") -> list[float]:
    return [bill(session, arm, price).input / bill(session, "direct", price).input for session in sessions]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.slow
def test_the_table() -> None:
    print()
    for title, sessions in (("big outputs", BIG), ("coding runs", RUNS), ("short runs", SHORT)):
        print(f"{title}: mean bill of {len(sessions)} sessions, worst, breaks a session; direct is 1")
        for arm in arms():
            cells = []
            for price in PRICES:
                found = ratios(sessions, arm, price)
                cells.append(f"{price}: {mean(found):.3f} {max(found):.3f}")
            breaks = mean([bill(session, arm, "0.1").breaks for session in sessions])
            print(f"  {arm:20} {'   '.join(cells)}   {breaks:.1f}")
            if arm == "sticky":
                assert mean(ratios(sessions, arm)) <= mean(ratios(sessions, "sliding mask"))


@pytest.mark.parametrize("session", BIG, ids=lambda session: session.name)
def test_big_outputs_cost_little_and_break_seldom(session: Session) -> None:
    assert ratios([session], "sticky")[0] <= 0.60
    assert bill(session, "sticky", "0.1").breaks <= 4


def test_coding_runs_are_cheaper_and_none_is_dearer() -> None:
    found = ratios(RUNS, "sticky")
    assert mean(found) <= 0.80
    assert max(found) <= 1.05


def test_most_needs_stand_in_full() -> None:
    """Needs in the made runs are met less often than in recorded ones: half of them are older than six readings."""
    found = [bill(session, "sticky", "0.1") for session in RUNS]
    assert sum(b.met for b in found) / sum(b.needs for b in found) >= 0.75


@pytest.mark.parametrize("price", PRICES)
def test_short_runs_are_left_alone(price: str) -> None:
    assert all(session.tokens < 10_000 for session in SHORT)
    assert ratios(SHORT, "sticky", price) == [1.0] * len(SHORT)


def test_the_guard_holds_a_cliff_at_half_of_the_peak() -> None:
    for session in RUNS:
        found = simulate(session, Sticky(), limit=session.tokens // 2)
        assert found.over == 0


def test_the_simulator_prices_a_growing_list_by_hand() -> None:
    """Two calls: the first is all new, the second reads the first from the cache in steps of 128."""
    session = coding_run(1, 1)
    made = simulate(session, Passthrough(), Prices(cached=0.1))
    first = sum(message.tokens for message in session.messages[:2])
    second = sum(message.tokens for message in session.messages[:4])
    cached = first // 128 * 128 if first >= 1_024 else 0
    assert made.calls == 2
    assert made.input == pytest.approx(first + (second - cached) + 0.1 * cached)


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_dir(), reason="no recorded runs here")
def test_recorded_runs() -> None:
    """Natural runs of 4K tokens and more, needs from their labels where there are some."""
    sessions = [
        recorded(path, TRACES / "labels" / f"{path.stem}.needs.json")
        for path in sorted(TRACES.glob("*.jsonl"))
        if not path.stem.startswith(("concat", "intercode"))
    ]
    sessions = [session for session in sessions if session.tokens >= 4_000]
    bands = {"under 10K": (0, 10_000), "10-25K": (10_000, 25_000), "25-50K": (25_000, 50_000),
             "50-100K": (50_000, 100_000), "over 100K": (100_000, 10**9)}  # fmt: skip
    print()
    for name, (low, high) in bands.items():
        band = [session for session in sessions if low <= session.tokens < high]
        found = ratios(band, "sticky")
        bills = [bill(session, "sticky", "0.1") for session in band]
        met = sum(b.met for b in bills) / max(1, sum(b.needs for b in bills))
        print(f"  {name:10} {len(band):3} runs: mean {mean(found):.3f} worst {max(found):.3f} needs met {met:.3f}")
    assert mean(ratios(sessions, "sticky")) <= 0.95
    assert max(ratios(sessions, "sticky")) <= 1.05
    assert max(ratios([session for session in sessions if session.tokens < 10_000], "sticky")) <= 1.01
