"""The bill of every policy under prompt caching, and the needs it meets: `python -m tests.bench.bill`.

Recorded runs with their labels where a folder of them is given or found beside the repository, else made sessions.
A model of the input bill (see tests.policies.simulate); it calls no model and says nothing about task success.

What was tried on the recorded runs at 0.1x and did not pay (total / mean bill of coding runs, share of needs verbatim):
masks in batches for fast runs instead of excerpts .552 / .862, .973; no kept lines but groups in use for 15 calls
.498 / .859, .971; kept lines of 8 % of a fold .530 / .874, .971; of 15 %, in use for 5 calls .451 / .838, .958;
a tail of 20 calls, in use for 10 .495 / .869, .973; patience 1.5 .476 / .840, .959.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from policies.contract import Policy
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
NOT_CODING = {"concat": "concatenated", "intercode": "queries", "tau": "desk", "tape": "web"}
FIELD_SEEDS = (7, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class SlidingMask:
    """Stubs all but the newest `keep` results at every call: what a sticky policy must beat."""

    keep: int = 3
    name: str = "sliding_mask"

    def select(self, situation: Situation) -> Selection:
        results = [c for c in situation.candidates if c.kind == "tool_result"]
        old = {c.id for c in results[: -self.keep] if c.is_seen and not c.is_pinned and c.costs[Form.STUB] >= 0}
        return Selection(tuple(Choice(c.id, Form.STUB if c.id in old else Form.FULL, "") for c in situation.candidates))


def arms() -> dict[str, Policy]:
    """The policies side by side, by name."""
    return {
        "direct": Passthrough(),
        "sliding mask, 3": SlidingMask(3),
        "sliding mask, 10": SlidingMask(10),
        "last 20 messages": LastN(LastNOptions(messages=20)),
        "sticky mask at 20K": Sticky(StickyOptions(economics=False, mask_at=20_000, keep=3, min_share=0.25)),
        "sticky": Sticky(),
    }


def suites(traces: Path) -> dict[str, list[Session]]:
    """Sessions by suite: recorded ones where there are some, else made ones; the session of large outputs always."""
    found: dict[str, list[Session]] = {}
    for path in sorted(traces.glob("*.jsonl")):
        session = recorded(path, traces / "labels" / f"{path.stem}.needs.json")
        if session.tokens >= LEAST_TOKENS:
            found.setdefault(NOT_CODING.get(path.stem.split("-")[0], "coding"), []).append(session)
    if not found:
        found["coding"] = [coding_run(seed, calls) for calls, seed in ((12, 1), (40, 1), (40, 2), (100, 1), (250, 1))]
    found["large outputs"] = [demo(make_session(seed, field_shape())) for seed in FIELD_SEEDS]
    return found


@dataclass(frozen=True, slots=True)
class Task:
    session: Session
    arm: str
    price: str
    share: float = 0.0  # of the session's peak at which a cliff stands, 0 for none


def run(task: Task) -> Bill:
    limit = int(task.session.tokens * task.share)
    return simulate(task.session, arms()[task.arm], PRICES[task.price], limit=limit, over_price=2.0)


def row(sessions: Sequence[Session], bills: Sequence[Bill], direct: Sequence[Bill]) -> str:
    """One arm's figures over a suite. `v` are needs met verbatim: of all, mean of runs, steps with all met."""
    ratios = [bill.input / base.input for bill, base in zip(bills, direct, strict=True)]
    total = sum(bill.input for bill in bills) / sum(base.input for base in direct)
    calls = sum(bill.calls for bill in bills)
    cells = [f"{total:.3f} {mean(ratios):.3f} {max(ratios):.3f} "]
    for low, high in BANDS.values():
        band = [ratio for session, ratio in zip(sessions, ratios, strict=True) if low <= session.tokens < high]
        cells.append(f"{mean(band):6.3f}" if band else "     -")
    verbatim = share(bills, "met", "needs"), mean([b.met / b.needs for b in bills if b.needs])
    cells.append(f"  v {verbatim[0]:.3f} {verbatim[1]:.3f} {share(bills, 'steps_met', 'steps'):.3f}")
    cells.append(f"  {40 * sum(b.breaks for b in bills) / calls:5.2f} {sum(b.expands for b in bills) / calls:6.3f}")
    return " ".join(cells)


def share(bills: Iterable[Bill], part: str, whole: str) -> float:
    found = [(getattr(bill, part), getattr(bill, whole)) for bill in bills]
    return sum(a for a, _ in found) / max(1, sum(b for _, b in found))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0


def tables(found: Mapping[str, Sequence[Session]], pool: ProcessPoolExecutor) -> None:
    """A table for each suite, then all natural runs together, then the cliff."""
    natural = [s for name, sessions in found.items() if name not in ("concatenated", "large outputs") for s in sessions]
    for suite, sessions in {**found, "all natural": natural}.items():
        if suite == "all natural" and len(found) <= 2:
            continue
        print(f"\n{suite}, {len(sessions)} sessions: total, mean, worst; mean by size {', '.join(BANDS)}; needs"
              " verbatim (all, mean of runs, steps); breaks a 40 calls; expands a call")  # fmt: skip
        for price in PRICES if suite != "concatenated" else ["0.1x"]:
            direct = list(pool.map(run, [Task(s, "direct", price) for s in sessions]))
            for arm in arms():
                bills = direct if arm == "direct" else list(pool.map(run, [Task(s, arm, price) for s in sessions]))
                print(f"  {price:20} {arm:20} {row(sessions, bills, direct)}", flush=True)
    long = [session for session in found["coding"] if session.tokens >= 20_000]
    print(
        f"\na cliff at half of the peak, twice the price above it; {len(long)} coding sessions of 20K tokens and more"
    )
    direct = list(pool.map(run, [Task(s, "direct", "0.1x", 0.5) for s in long]))
    for arm in arms():
        bills = list(pool.map(run, [Task(s, arm, "0.1x", 0.5) for s in long]))
        print(f"  {arm:20} {row(long, bills, direct)}  {sum(b.over for b in bills)} calls above", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        tables(suites(options.traces), pool)


if __name__ == "__main__":
    main()
