"""Measures the 40-result session against the direct run, same provider model: `python -m tests.bench.field_session`.

Tokens are characters / 4, the cache is the longest common prefix with one of the last six prompts (1,024 at least,
steps of 128), output is free. A model of the input bill; it says nothing about task success.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from proxy.config import LogConfig
from proxy.demo.agent import Agent, CallReport
from proxy.demo.bill import Rates, cost
from proxy.demo.provider import Provider, Served
from proxy.demo.serving import serving
from proxy.demo.session import Session, Shape, make_session
from proxy.logs import configure_logging
from tests.bench.responses_session import ResponsesAgent, ResponsesProvider
from tests.support.serve import served

CACHED = (0.05, 0.1, 0.25, 0.5)
WIRES: dict[str, tuple[type[Provider], type[Agent]]] = {
    "chat": (Provider, Agent),
    "responses": (ResponsesProvider, ResponsesAgent),
}
WIDE = {"*": {"window": 400_000, "cliff": 0}}
"""What the proxy is told: a window that never binds, no cliff. So only the policy acts."""


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One run of the session. `bill` is dollars by cached share; `bill_written` the same with writes at 1.25."""

    arm: str
    calls: int
    errors: int
    invalid_lists: int
    refused_upstream: int
    sent_bytes: int
    upstream_bytes: int
    input: int
    cached: int
    peak: int
    breaks: int
    tail_changes: int
    errors_visible: int
    p50_ms: float
    bill: Mapping[str, float] = field(default_factory=dict)
    bill_written: Mapping[str, float] = field(default_factory=dict)

    @property
    def cache_hit(self) -> float:
        return self.cached / self.input if self.input else 0.0


def field_shape(turns: int = 1) -> Shape:
    """40 results of 4 to 12 KB; two of ten logs are cut before their error by the tool itself."""
    per = 40 // turns
    return Shape(turns=(per,) * turns, parallel_every=0, cut_logs=(3, 7), asks_at_end=False)


def summarise(arm: str, reports: Sequence[CallReport], times: Sequence[float], served_: Sequence[Served],
              session: Session) -> ArmResult:  # fmt: skip
    paid = [entry for entry in served_ if entry.status == 200]
    refused = [entry for entry in served_ if entry.status != 200]
    last = paid[-1].body.decode() if paid else ""

    def bill(write: float) -> dict[str, float]:
        rates = {share: Rates(input=1.0, output=0.0, cached_share=share, write_share=write) for share in CACHED}
        return {str(share): round(sum(cost(rate, e.usage) for e in paid), 6) for share, rate in rates.items()}

    return ArmResult(
        arm=arm,
        calls=sum(not report.error for report in reports),
        errors=sum(bool(report.error) for report in reports),
        invalid_lists=sum("tool" in entry.refusal for entry in refused),
        refused_upstream=len(refused),
        sent_bytes=sum(report.sent_bytes for report in reports),
        upstream_bytes=sum(len(entry.body) for entry in served_),
        input=sum(entry.usage.input for entry in paid),
        cached=sum(entry.usage.cached for entry in paid),
        peak=max((entry.usage.input for entry in paid), default=0),
        breaks=sum(entry.is_break for entry in paid),
        tail_changes=sum(entry.is_tail_change for entry in paid),
        errors_visible=sum(error in last for error in session.errors),
        p50_ms=round(statistics.median(times) * 1000, 1) if times else 0.0,
        bill=bill(1.0),
        bill_written=bill(1.25),
    )


def run_arm(
    arm: str, session: Session, *, streams: bool = False, window: int = 10_000_000, policy: str | None = None,
    models: Mapping[str, Mapping[str, object]] | None = None, wire: str = "chat", **settings: Any,
) -> ArmResult:  # fmt: skip
    """The session once: straight to the provider without `policy`, else through the served proxy."""
    make_provider, make_agent = WIRES[wire]
    provider = make_provider(session.script(), window=window)
    reports: list[CallReport] = []
    times: list[float] = []
    with ExitStack() as stack:
        base = f"{stack.enter_context(serving(provider))}/v1"
        if policy is not None:
            base = stack.enter_context(served(base, models=models or WIDE, policy__name=policy, **settings)).base_url
        agent = make_agent(base, "bench", session, streams=streams)
        started = time.perf_counter()
        for report in agent.run():
            times.append(time.perf_counter() - started)
            reports.append(report)
            started = time.perf_counter()
        agent.close()
    return summarise(arm, reports, times, provider.served, session)


NEVER_MASKS = {"economics": False, "mask_at": 10_000_000}
"""Sticky that changes nothing until the provider refuses: so the limit is really met."""
ARMS: tuple[tuple[str, str | None, dict[str, object]], ...] = (
    ("direct", None, {}),
    ("sticky", "sticky", {}),
    ("sticky, batches only", "sticky", {"economics": False}),
    ("last_n 20", "last_n", {"messages": 20}),
    ("passthrough", "passthrough", {}),
)
LIMITED: tuple[tuple[str, str | None, dict[str, object]], ...] = (
    ("direct, 45K", None, {}),
    ("sticky, 45K", "sticky", {}),
    ("sticky met, 45K", "sticky", NEVER_MASKS),
    ("last_n, 45K", "last_n", {}),
    ("passthrough, 45K", "passthrough", {}),
)


def run_all(
    seed: int, turns: int, streams: bool, extra: Sequence[dict[str, object]] = (), wire: str = "chat"
) -> list[ArmResult]:
    """Every arm; `extra` are options of sticky to measure besides."""
    session = make_session(seed, field_shape(turns))
    more = tuple((json.dumps(options), "sticky", options) for options in extra)
    results = []
    for arms, window in ((ARMS + more, 10_000_000), (LIMITED, 45_000)):
        for arm, policy, options in arms:
            results.append(
                run_arm(arm, session, streams=streams, window=window, policy=policy, wire=wire, policy__options=options)
            )
    return results


def show(console: Console, title: str, results: Sequence[ArmResult]) -> None:
    direct = results[0]
    table = Table(title=title, title_justify="left")
    names = (
        "arm",
        "calls ok",
        "errors",
        "invalid",
        "bytes saved",
        "tokens saved",
        "peak",
        "breaks",
        "tail",
        "cache hit",
    )
    for name in (*names, *(f"bill {share}" for share in CACHED), "0.1, w 1.25", "ERROR seen", "p50 ms"):
        table.add_column(name, justify="right" if name != "arm" else "left")
    for result in results:
        table.add_row(
            result.arm,
            str(result.calls),
            str(result.errors),
            str(result.invalid_lists),
            f"{1 - result.upstream_bytes / max(result.sent_bytes, 1):.1%}",
            f"{1 - result.input / direct.input:.1%}",
            f"{result.peak:,}",
            str(result.breaks),
            str(result.tail_changes),
            f"{result.cache_hit:.1%}",
            *(f"{result.bill[str(share)] / direct.bill[str(share)]:.3f}" for share in CACHED),
            f"{result.bill_written['0.1'] / direct.bill_written['0.1']:.3f}",
            str(result.errors_visible),
            f"{result.p50_ms}",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--turns", type=int, default=1, help="user turns that the 40 results are spread over")
    parser.add_argument("--options", action="append", default=[], help="JSON options of sticky for one more arm")
    parser.add_argument("--wire", choices=sorted(WIRES), default="chat")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    configure_logging(LogConfig(level="error"))
    console = Console(width=190)
    out: dict[str, Any] = {}
    for streams in (False, True):
        name = "streaming" if streams else "not streaming"
        results = run_all(options.seed, options.turns, streams, [json.loads(t) for t in options.options], options.wire)
        out[name] = [asdict(result) | {"cache_hit": result.cache_hit} for result in results]
        if not options.json:
            show(console, f"{name}, seed {options.seed}; bills as a share of direct", results)
    if options.json:
        json.dump(out, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
