"""The bill of every policy under prompt caching, and the needs it meets: `python -m tests.bench.bill`.

Recorded runs with their labels where a folder of them is given or found beside the repository, else made sessions.
A model of the input bill (see tests.policies.simulate); it calls no model and says nothing about task success.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from policies.contract import Policy
from policies.economics import EconomicsOptions, decision_prices
from policies.last_n import LastN, LastNOptions
from policies.model import Choice, Form, Prices, Selection, Situation
from policies.passthrough import Passthrough
from policies.sticky import Sticky, StickyOptions
from proxy.demo.session import make_session
from tests.bench.field_session import field_shape
from tests.policies.sessions import Session, coding_run, demo, recorded
from tests.policies.simulate import Bill, simulate

TRACES = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "traces"
PRICES = {
    "0.05x": Prices(cached=0.05),
    "0.1x": Prices(cached=0.1),
    "0.25x": Prices(cached=0.25),
    "0.5x": Prices(cached=0.5),
    "0.1x, writes 1.25x": Prices(cached=0.1, write=1.25),
    "0.05x, writes 1.25x": Prices(cached=0.05, write=1.25),
}
BANDS = {"<10K": (0, 10_000), "10-25K": (10_000, 25_000), "25-50K": (25_000, 50_000), "50-100K": (50_000, 100_000),
         ">100K": (100_000, 10**9)}  # fmt: skip
LEAST_TOKENS = 4_000
NOT_CODING = {"concat": "concatenated", "intercode": "sql", "tau": "tau", "tape": "web"}
NOT_NATURAL = ("concatenated", "large outputs")
FIELD_SEEDS = (7, 1, 2, 3)
DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class SlidingMask:
    """Stubs all but the newest `keep` results at every call: what a sticky policy must beat."""

    keep: int = 3
    name: str = "sliding_mask"

    def select(self, situation: Situation) -> Selection:
        results = [c for c in situation.candidates if c.kind == "tool_result"]
        old = {c.id for c in results[: -self.keep] if c.is_seen and not c.is_pinned and c.costs[Form.STUB] >= 0}
        return Selection(tuple(Choice(c.id, Form.STUB if c.id in old else Form.FULL, "") for c in situation.candidates))


ARMS: dict[str, Callable[[], Policy]] = {
    DIRECT: Passthrough,
    "sliding mask, 3": lambda: SlidingMask(3),
    "sliding mask, 10": lambda: SlidingMask(10),
    "last 20 messages": lambda: LastN(LastNOptions(messages=20)),
    "sticky mask at 20K": lambda: Sticky(StickyOptions(economics=False, mask_at=20_000, keep=3, min_share=0.25)),
    "sticky": Sticky,
}
"""The policies side by side. Only the last one looks at prices."""


def suites(traces: Path) -> dict[str, list[Session]]:
    """Sessions by suite: recorded ones where there are some, else made ones; the session of large outputs always."""
    found: dict[str, list[Session]] = {}
    for path in sorted(traces.glob("*.jsonl")):
        session = recorded(path, traces / "labels" / f"{path.stem}.needs.json")
        if session.tokens >= LEAST_TOKENS:
            found.setdefault(NOT_CODING.get(path.stem.split("-")[0], "coding"), []).append(session)
    if not found:
        found["coding"] = [coding_run(seed, calls) for calls, seed in ((12, 1), (40, 1), (40, 2), (100, 1), (250, 1))]
    found["large outputs"] = [large_outputs(seed) for seed in FIELD_SEEDS]
    return found


def large_outputs(seed: int) -> Session:
    """The session of the field bench."""
    return demo(make_session(seed, field_shape()), f"large outputs, seed {seed}")


def group_of(name: str) -> str:
    """The task group of a run: the repository it works on, or the scaffold it was recorded with."""
    repository = re.search(r"-([a-z]+)__", name)
    return repository[1] if repository else name.split("-")[0]


def is_long(session: Session) -> bool:
    """Long enough for a cliff to matter."""
    return session.tokens >= 20_000


@dataclass(frozen=True, slots=True)
class Task:
    """One arm over one session. `share`: a cliff stands at this part of the session's peak; 0 for none."""

    name: str
    arm: str
    prices: Prices
    share: float = 0.0


def decided(arm: str, prices: Prices) -> Prices:
    """The prices that an arm decides by: where they are the same, so are the windows."""
    return decision_prices(prices, EconomicsOptions()) if arm == "sticky" else Prices()


class Bills:
    """Every bill is made once. `compute` makes them all, on several cores."""

    def __init__(self) -> None:
        self._made: dict[Task, Bill] = {}

    def of(self, session: Session, arm: str, prices: Prices, share: float = 0.0) -> Bill:
        task = Task(session.name, arm, decided(arm, prices), share)
        if task not in self._made:
            self._made[task] = make(task, session)
        return self._made[task]

    def compute(self, sessions: Iterable[Session], arms: Sequence[str], cliff: float, jobs: int) -> None:
        """All prices, without and with a cliff; the dearest first."""
        known = {session.name: session for session in sessions}
        tasks = {Task(name, arm, decided(arm, price)) for name in known for arm in arms for price in PRICES.values()}
        tasks |= {Task(name, arm, Prices(), cliff) for name in known for arm in arms if is_long(known[name])}
        order = sorted(tasks, key=lambda task: (-known[task.name].tokens, str(task)))
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(jobs, context, initializer=_inherited.update, initargs=(known,)) as pool:
            self._made.update(zip(order, pool.map(_run, order), strict=True))


_inherited: dict[str, Session] = {}
"""A worker's sessions by name."""


def _run(task: Task) -> Bill:
    return make(task, _inherited[task.name])


def make(task: Task, session: Session) -> Bill:
    return simulate(session, ARMS[task.arm](), task.prices, limit=int(session.tokens * task.share), over_price=2.0)


@dataclass(frozen=True, slots=True)
class Figures:
    """One arm over a suite at one price, beside direct."""

    sessions: Sequence[Session]
    bills: Sequence[Bill]
    ratios: Sequence[float]
    total: float

    @classmethod
    def of(cls, bills: Bills, sessions: Sequence[Session], arm: str, prices: Prices, share: float = 0.0) -> Figures:
        made = [bills.of(session, arm, prices, share) for session in sessions]
        paid = [found.at(prices) for found in made]
        direct = [bills.of(session, DIRECT, prices, share).at(prices) for session in sessions]
        return cls(sessions, made, [a / b for a, b in zip(paid, direct, strict=True)], sum(paid) / sum(direct))

    def band(self, name: str) -> list[float]:
        low, high = BANDS[name]
        return [ratio for s, ratio in zip(self.sessions, self.ratios, strict=True) if low <= s.tokens < high]

    @property
    def verbatim(self) -> float:
        return share_of(self.bills, "met", "needs")

    @property
    def breaks(self) -> float:
        """Cache breaks in 40 calls."""
        return 40 * share_of(self.bills, "breaks", "calls")

    @property
    def worst(self) -> str:
        """The session that pays most beside direct."""
        return max(zip(self.ratios, self.sessions, strict=True), key=lambda pair: pair[0])[1].name

    def row(self) -> str:
        """The figures that `HEADER` names."""
        cells = [f"{self.total:.3f} {mean(self.ratios):.3f} {max(self.ratios):.3f} "]
        cells += [f"{mean(found):6.3f}" if (found := self.band(name)) else "     -" for name in BANDS]
        runs = mean([found.met / found.needs for found in self.bills if found.needs])
        cells.append(f"  {self.verbatim:.3f} {runs:.3f} {share_of(self.bills, 'steps_met', 'steps'):.3f} ")
        cells.append(f"{self.breaks:6.2f} {40 * share_of(self.bills, 'tail_changes', 'calls'):6.2f}")
        cells.append(f"{share_of(self.bills, 'expands', 'calls'):6.3f}")
        return " ".join(cells)


HEADER = f"total, mean, worst; mean by size {', '.join(BANDS)}; needs verbatim (all, mean of runs, steps); breaks and"
HEADER += " tail changes in 40 calls; expands a call"


def share_of(found: Iterable[Bill], part: str, whole: str) -> float:
    pairs = [(getattr(one, part), getattr(one, whole)) for one in found]
    return sum(a for a, _ in pairs) / max(1, sum(b for _, b in pairs))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0


def tables(found: Mapping[str, Sequence[Session]], bills: Bills, arms: Sequence[str]) -> None:
    """A table for each suite, then all natural runs together, then by task group."""
    natural = [session for name, sessions in found.items() if name not in NOT_NATURAL for session in sessions]
    for suite, sessions in {**found, "all natural": natural}.items():
        print(f"\n{suite}, {len(sessions)} sessions: {HEADER}")
        for price, prices in PRICES.items():
            for arm in arms:
                figures = Figures.of(bills, sessions, arm, prices)
                print(f"  {price:20} {arm:20} {figures.row()}  {figures.worst}", flush=True)
    print(f"\nsticky by task group at 0.1x: sessions; {HEADER}")
    groups: dict[str, list[Session]] = {}
    for session in natural:
        groups.setdefault(group_of(session.name), []).append(session)
    for group, sessions in sorted(groups.items()):
        print(f"  {group:20} {len(sessions):3}  {Figures.of(bills, sessions, 'sticky', Prices()).row()}")
    for group, sessions in sorted(groups.items()):
        rest = [session for session in found["coding"] if session not in sessions]
        if rest and len(rest) < len(found["coding"]):
            print(f"  coding without {group:10} {Figures.of(bills, rest, 'sticky', Prices()).row()}")


def cliff_table(found: Mapping[str, Sequence[Session]], bills: Bills, arms: Sequence[str], share: float) -> None:
    sessions = [session for session in found["coding"] if is_long(session)]
    print(f"\na cliff at {share:.0%} of each run's peak, twice the price above it; {len(sessions)} coding sessions")
    for arm in arms:
        figures = Figures.of(bills, sessions, arm, Prices(), share)
        over = sum(one.over for one in figures.bills)
        print(f"  {arm:20} {figures.row()}  {over} calls above", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--suites", nargs="*", help="only these")
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--cliff", type=float, default=0.5, help="where it stands, as a share of a run's peak")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    options = parser.parse_args()
    found = {name: made for name, made in suites(options.traces).items() if name in (options.suites or (name,))}
    arms = [arm for arm in ARMS if arm in (DIRECT, *options.arms)]
    bills = Bills()
    bills.compute((session for sessions in found.values() for session in sessions), arms, options.cliff, options.jobs)
    tables(found, bills, arms)
    if "coding" in found:
        cliff_table(found, bills, arms, options.cliff)


if __name__ == "__main__":
    main()
