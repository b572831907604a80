"""What the policies cost: a table of bills over made sessions (`pytest -s` shows it), and bars for the default."""

from __future__ import annotations

import pytest

from policies.model import Prices
from policies.passthrough import Passthrough
from policies.sticky import Sticky, StickyOptions
from tests.bench.bill import ARMS, PRICES, TRACES, Bills, Figures, large_outputs, mean, suites
from tests.policies.sessions import Builder, Session, big_outputs, coding_run
from tests.policies.simulate import Bill, simulate

BIG = [big_outputs(seed) for seed in (7, 8, 9)]
FIELD = [large_outputs(seed) for seed in (7, 1)]
RUNS = [coding_run(seed, calls) for calls, seed in ((40, 1), (40, 2), (100, 1), (160, 1))]
SHORT = [coding_run(seed, 12) for seed in (1, 2, 3)]


BILLS = Bills()


def bill(session: Session, arm: str, price: str) -> Bill:
    return BILLS.of(session, arm, PRICES[price])


def ratios(sessions: list[Session], arm: str, price: str = "0.1x") -> list[float]:
    return list(Figures.of(BILLS, sessions, arm, PRICES[price]).ratios)


@pytest.mark.slow
def test_the_table() -> None:
    print()
    for title, sessions in (("big outputs", BIG[:1]), ("coding runs", RUNS), ("short runs", SHORT)):
        print(f"{title}: mean bill of {len(sessions)} sessions, worst, breaks a session; direct is 1")
        for arm in ARMS:
            cells = []
            for price in PRICES:
                found = ratios(sessions, arm, price)
                cells.append(f"{price}: {mean(found):.3f} {max(found):.3f}")
            breaks = mean([bill(session, arm, "0.1x").breaks for session in sessions])
            print(f"  {arm:20} {'   '.join(cells)}   {breaks:.1f}")
            if arm == "sticky":
                assert mean(ratios(sessions, arm)) <= mean(ratios(sessions, "sliding mask, 3"))


@pytest.mark.parametrize("session", [*BIG, *FIELD], ids=lambda session: session.name)
def test_large_outputs_cost_little_and_break_seldom(session: Session) -> None:
    assert ratios([session], "sticky")[0] <= 0.60
    assert bill(session, "sticky", "0.1x").breaks <= 2


def test_coding_runs_are_cheaper_and_none_is_dearer() -> None:
    found = ratios(RUNS, "sticky")
    assert mean(found) <= 0.80
    assert max(found) <= 1.05
    bills = [bill(session, "sticky", "0.1x") for session in RUNS]
    assert 32 * sum(b.breaks for b in bills) <= sum(b.calls for b in bills)


@pytest.mark.parametrize("price", PRICES)
def test_no_price_makes_a_run_dearer(price: str) -> None:
    assert max(ratios(RUNS, "sticky", price)) <= 1.05


def test_most_needs_stand_in_full() -> None:
    """Needs in the made runs are met less often than in recorded ones: half of them are older than six readings."""
    found = [bill(session, "sticky", "0.1x") for session in RUNS]
    assert sum(b.met for b in found) / sum(b.needs for b in found) >= 0.75
    masked = [bill(session, "sliding mask, 3", "0.1x") for session in RUNS]
    assert sum(b.met for b in found) > 1.3 * sum(b.met for b in masked)


def rereading(calls: int = 60) -> Session:
    """One long file read again and again, each time with another line changed."""
    build = Builder("rereading")
    build.system("You keep a harbour's software in order. " * 10)
    build.user("Repair the sluice.")
    lines = [f"    level_{n} = survey_{n * 7}(tide, {n})" for n in range(80)]
    for call in range(calls):
        lines[call] = f"    level_{call} = repaired_{call}()"
        source = build.step("read_file", "harbour/core.py", "\n".join(lines), f"Now line {call}.")
        build.assistant(f"As I saw, line {call} is repaired. " * 10)
        build.need(source, atom=lines[call])
    build.assistant("Done.")
    return build.session()


def test_what_is_read_again_is_paid_for_once_and_nothing_is_lost() -> None:
    session = rereading()
    found = simulate(session, Sticky(StickyOptions(patience=1e9, tail_masks=0.0, excerpts=False)))
    assert found.input < 0.8 * simulate(session, Passthrough()).input
    assert found.met == found.needs == 60 and found.breaks == 0 and found.dangling == 0


def test_no_delta_ever_stands_without_its_base() -> None:
    for session in (rereading(), *RUNS[:3], *FIELD):
        for limit in (0, session.tokens // 3):
            assert simulate(session, Sticky(), limit=limit).dangling == 0


def test_a_cold_cache_makes_a_fold_free() -> None:
    session = coding_run(1, 100)
    at = [i for i, m in enumerate(session.messages) if m.kind == "assistant"][50]
    found = simulate(session, Sticky(), cold=[at])
    assert any(step == at and "cache cold" in reason for step, reason in found.reasons)


def test_every_change_gives_its_figures() -> None:
    found = simulate(RUNS[-1], Sticky())
    assert found.reasons and all(any(c.isdigit() for c in reason) and "tokens" in reason for _, reason in found.reasons)


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
    """The goals on natural coding runs, with needs from their labels."""
    sessions = suites(TRACES)["coding"]
    bills = [bill(session, "sticky", "0.1x") for session in sessions]
    found = dict(zip((session.name for session in sessions), ratios(sessions, "sticky"), strict=True))

    def band(low: int, high: int) -> list[float]:
        return [found[session.name] for session in sessions if low <= session.tokens < high]

    assert mean(list(found.values())) <= 0.90 and max(found.values()) <= 1.05
    assert mean(band(50_000, 100_000)) <= 0.84 and mean(band(100_000, 10**9)) <= 0.45
    assert max(band(0, 10_000)) <= 1.01
    assert sum(b.met for b in bills) >= 0.95 * sum(b.needs for b in bills)
    assert 40 * sum(b.breaks for b in bills) <= sum(b.calls for b in bills)
    assert sum(b.dangling for b in bills) == 0
