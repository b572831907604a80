"""A long chat against a real llama.cpp server with a small context: `python -m tests.bench.llama_session --url URL`.

Its own list outgrows the server's context many times. Its answers are babble; nothing here looks at them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from proxy.config import LogConfig
from proxy.demo.agent import Agent, CallReport
from proxy.demo.material import log_lines, search_hits
from proxy.demo.session import Session, Turn
from proxy.logs import configure_logging
from proxy.store.open import open_store
from tests.support.serve import served

POLICIES = ("sticky", "last_n", "passthrough")


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One run. `raw_tokens` is the whole list by the server's own tokenizer; `billed` and `estimated` are sums."""

    arm: str
    turns: int
    errors: int
    first_error: str
    raw_tokens: int
    billed: int
    cached: int
    peak: int
    estimated: int
    worst_ratio: float  # the largest billed / estimated of one call, 0 when the store was not read
    folds: int
    seconds: float

    @property
    def cached_share(self) -> float:
        return self.cached / self.billed if self.billed else 0.0


def make_chat(turns: int, chars: int, seed: int = 7) -> Session:
    """Each user message brings a text of its own to speak about."""
    rng = Random(seed)
    asks = []
    for number in range(turns):
        if number % 2:
            text = log_lines(rng, chars, f"ERROR hold {number} lost at berth {rng.randint(1, 60)}", 0.5)
        else:
            text = search_hits(rng, chars, "hold")
        asks.append(f"Part {number + 1}. Say in one sentence what stands out here.\n{text}")
    return Session("You answer in one short sentence.", "", tuple(Turn(ask, (), "") for ask in asks), ())


def count_raw(url: str, messages: Sequence[bytes]) -> int:
    """The list's tokens by the server's own tokenizer."""
    text = "\n".join(str(json.loads(raw).get("content") or "") for raw in messages)
    reply = httpx.post(f"{url}/tokenize", json={"content": text}, timeout=120, trust_env=False)
    return len(reply.json()["tokens"])


def cool_down(url: str) -> None:
    """Another prompt, so that no run starts with the cache of the one before."""
    body = {"messages": [{"role": "user", "content": f"Unrelated: {time.time()} " + "zebra " * 200}], "max_tokens": 1}
    httpx.post(f"{url}/v1/chat/completions", json=body, timeout=120, trust_env=False).raise_for_status()


async def read_estimates(db: Path, conversation: str) -> tuple[list[tuple[int, int]], int]:
    """(estimated, billed) of each successful call, and the number of compactions."""
    store = open_store(str(db))
    await store.open()
    try:
        pairs = []
        for window in await store.windows(conversation):
            manifest = await store.window(window)
            if manifest is not None and manifest.outcome is not None and manifest.outcome.status == 200:
                pairs.append((manifest.window.tokens_out, manifest.outcome.input))
        return pairs, len(await store.folds(conversation))
    finally:
        await store.aclose()


def run_arm(arm: str, url: str, session: Session, *, policy: str | None, proxy: str | None, max_tokens: int,
            window: int | None) -> ArmResult:  # fmt: skip
    """The chat once: straight to the server, through a proxy that already runs, or through one of our own."""
    cool_down(url)
    with TemporaryDirectory() as folder, ExitStack() as stack:
        db = Path(folder) / "bench.db"
        base = proxy or f"{url}/v1"
        if policy is not None and not proxy:
            models = {"*": {"window": window}} if window else {}
            base = stack.enter_context(served(f"{url}/v1", db, models=models, policy__name=policy)).base_url
        started = time.monotonic()
        agent = Agent(base, "bench", session, model="gemma", max_tokens=max_tokens)
        reports = list(agent.run())
        agent.close()
        seconds = time.monotonic() - started
        stack.close()  # the store is read once the proxy has closed it
        pairs, folds = asyncio.run(read_estimates(db, _conversation(reports))) if db.exists() else ([], 0)
    return _result(arm, reports, count_raw(url, agent.messages), pairs, folds, seconds)


def _conversation(reports: Sequence[CallReport]) -> str:
    return next((report.headers.get("x-undercliff-conversation", "") for report in reversed(reports)), "")


def _result(arm: str, reports: Sequence[CallReport], raw: int, pairs: Sequence[tuple[int, int]], folds: int,
            seconds: float) -> ArmResult:  # fmt: skip
    usages = [report.usage for report in reports if report.usage]
    errors = [report for report in reports if report.error]
    return ArmResult(
        arm=arm,
        turns=len(reports) - len(errors),
        errors=len(errors),
        first_error=errors[0].error[:160] if errors else "",
        raw_tokens=raw,
        billed=sum(usage["prompt_tokens"] for usage in usages),
        cached=sum((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0 for usage in usages),
        peak=max((usage["prompt_tokens"] for usage in usages), default=0),
        estimated=sum(estimate for estimate, _ in pairs),
        worst_ratio=round(max((billed / max(estimate, 1) for estimate, billed in pairs), default=0.0), 3),
        folds=folds,
        seconds=round(seconds, 1),
    )


def show(console: Console, results: Sequence[ArmResult]) -> None:
    table = Table(title="The same chat against a real llama.cpp server", title_justify="left")
    names = ("arm", "turns ok", "errors", "raw tokens", "billed", "peak", "cached", "estimated", "worst", "folds", "s")
    for name in names:
        table.add_column(name, justify="right" if name != "arm" else "left")
    for result in results:
        ratio = f"{result.estimated:,} ({result.billed / result.estimated:.2f})" if result.estimated else "-"
        table.add_row(
            result.arm,
            str(result.turns),
            str(result.errors),
            f"{result.raw_tokens:,}",
            f"{result.billed:,}",
            f"{result.peak:,}",
            f"{result.cached_share:.1%}",
            ratio,
            str(result.worst_ratio),
            str(result.folds),
            str(result.seconds),
        )
    console.print(table)
    for result in results:
        if result.first_error:
            console.print(f"{result.arm}: {result.first_error}", highlight=False, markup=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the llama.cpp server, without /v1")
    parser.add_argument("--proxy", help="base URL of a proxy that already runs before that server, with /v1")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--chars", type=int, default=1_400, help="size of each user message")
    parser.add_argument("--max-tokens", type=int, default=40)
    parser.add_argument("--window", type=int, help="tell the proxy the context; without it, it learns it by the error")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    configure_logging(LogConfig(level="error"))
    url = options.url.rstrip("/")
    session = make_chat(options.turns, options.chars)
    arms = [("direct", None)]
    arms += [("proxy", None)] if options.proxy else [(name, name) for name in options.policies.split(",")]
    results = []
    for arm, policy in arms:
        proxy = options.proxy if arm == "proxy" else None
        results.append(
            run_arm(arm, url, session, policy=policy, proxy=proxy, max_tokens=options.max_tokens, window=options.window)
        )
        if not options.json:
            show(Console(width=140), results[-1:])
    if options.json:
        rows: list[dict[str, Any]] = [asdict(result) | {"cached_share": result.cached_share} for result in results]
        json.dump(rows, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
