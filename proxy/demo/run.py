"""`undercliff demo`: one session driven twice over real HTTP, straight to a scripted provider and through the proxy.

Needs no key and no network. What it shows is measured on the way, not asserted.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from rich.console import Console

from proxy.app import create_app
from proxy.config import Config, LogConfig, ModelConfig, StoreConfig, UpstreamConfig
from proxy.demo.agent import Agent, CallReport
from proxy.demo.bill import Rates
from proxy.demo.evidence import gather_evidence
from proxy.demo.figures import Figures, Kept, Row, sum_up
from proxy.demo.provider import Provider, Served
from proxy.demo.serving import serving
from proxy.demo.session import FACTS, make_session
from proxy.demo.view import Board, show_pointers, show_totals
from proxy.logs import configure_logging
from proxy.tokenizer import Tokenizer

DIRECT, THROUGH = "without", "through"
CLIFF, WINDOW = 27_200, 105_000
SMALL_WINDOW = 12_000
"""What the provider really allows in the last turn, though the proxy was told `WINDOW`."""
RATES = Rates(cliff=CLIFF)
PACE_S = 0.008
"""Between two pieces of a reply, where someone watches."""


def run(*, as_json: bool = False, seed: int = 7, console: Console | None = None) -> int:
    """Run and show the demo. The exit code is 0 if every word was kept and nothing was refused to the agent."""
    console = console or Console()
    configure_logging(LogConfig(level="error"))
    board = Board(console)
    with TemporaryDirectory(prefix="undercliff-demo-") as folder, nullcontext() if as_json else board.showing():
        pace_s = PACE_S if console.is_terminal and not as_json else 0.0
        figures = play(Path(folder) / "demo.db", seed, None if as_json else board, pace_s=pace_s)
    if as_json:
        console.print_json(json.dumps(figures.as_dict()))
    else:
        show_totals(console, figures)
        show_pointers(console)
    return 0 if figures.is_good else 1


def play(db: Path, seed: int, board: Board | None, *, pace_s: float = 0.0) -> Figures:
    """Both runs, call by call side by side, then what the store says about the second one."""
    started = time.monotonic()
    session = make_session(seed)
    provider = Provider(session.script(), window=WINDOW, rates=RATES, count=Tokenizer().count, pace_s=pace_s)
    recorder = _Recorder(provider)
    with serving(provider) as upstream, _proxy(upstream, db) as url:
        direct = Agent(f"{upstream}/v1", DIRECT, session)
        through = Agent(f"{url}/v1", THROUGH, session)
        conversation = ""
        for number, turn in enumerate(session.turns, start=1):
            if number == len(session.turns):
                provider.window = SMALL_WINDOW
                recorder.close_accounts()
            for one, other in zip_longest(direct.run_turn(number, turn), through.run_turn(number, turn)):
                row = recorder.row(one, other)
                if other is not None:
                    conversation = other.headers.get("x-undercliff-conversation", conversation)
                if board is not None:
                    board.add(row)
        direct.close()
        through.close()
    body = _last_body(provider)
    kept = asyncio.run(gather_evidence(db, conversation, through.messages, body))
    return recorder.figures(kept, {fact.name: fact.text.encode() in body for fact in FACTS}, started)


class _Recorder:
    """Turns what the agents and the provider saw into rows and totals."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._read = 0
        self._closed_at: int | None = None
        self._calls = 0
        self._recovered = 0
        self._per_byte = 0.25  # tokens, as the agent's whole list was last counted
        self._errors = {DIRECT: 0, THROUGH: 0}

    def close_accounts(self) -> None:
        """The bill ends here: what follows is the overflow, which one side does not survive."""
        self._closed_at = len(self._provider.served)

    def row(self, direct: CallReport | None, through: CallReport | None) -> Row:
        new = self._provider.served[self._read :]
        self._read += len(new)
        self._calls += 1
        one, other = _last(new, DIRECT), _last(new, THROUGH)
        is_recovered = any(entry.key == THROUGH and entry.status != 200 for entry in new) and _is_fine(through)
        self._recovered += is_recovered
        for key, report in ((DIRECT, direct), (THROUGH, through)):
            self._errors[key] += report is not None and bool(report.error)
        report = through or direct
        if one and one.usage.input:
            self._per_byte = one.usage.input / len(one.body)
        return Row(
            turn=report.turn if report else 0,
            call=self._calls,
            asked=(", ".join(report.calls) or "nothing more") if report and not report.error else "",
            sent=int((report.sent_bytes if report else 0) * self._per_byte),
            seen=other.usage.input if other else 0,
            direct=one.cost if one else 0.0,
            through=other.cost if other else 0.0,
            direct_error=direct.error if direct else "",
            through_error=through.error if through else "",
            is_direct_above=bool(one and one.is_above_cliff),
            is_through_above=bool(other and other.is_above_cliff),
            is_rewrite=bool(other and other.is_break),
            is_recovered=is_recovered,
        )

    def figures(self, kept: Kept, facts: dict[str, bool], started: float) -> Figures:
        paid = self._provider.served[: self._closed_at]
        return Figures(
            direct=sum_up([entry for entry in paid if entry.key == DIRECT], self._errors[DIRECT]),
            through=sum_up([entry for entry in paid if entry.key == THROUGH], self._errors[THROUGH]),
            kept=kept,
            recovered=self._recovered,
            direct_refusals=self._errors[DIRECT],
            facts=facts,
            seconds=round(time.monotonic() - started, 2),
        )


def _last(served: Sequence[Served], key: str) -> Served | None:
    return next((entry for entry in reversed(served) if entry.key == key), None)


def _is_fine(report: CallReport | None) -> bool:
    return report is not None and not report.error


@contextmanager
def _proxy(upstream: str, db: Path) -> Iterator[str]:
    """The real product, told what the provider's price list says."""
    model = ModelConfig(
        window=WINDOW,
        cliff=CLIFF,
        input_price=RATES.input,
        cached_price=RATES.input * RATES.cached_share,
        write_price=RATES.input,
        output_price=RATES.output,
    )
    config = Config(
        upstream=UpstreamConfig(url=f"{upstream}/v1"),
        store=StoreConfig(url=str(db)),
        models=MappingProxyType({"demo": model}),
        log=LogConfig(level="error"),
    )
    options = {"ws": "none", "lifespan": "on", "server_header": False, "date_header": False}
    with serving(create_app(config), **options) as url:
        yield url


def _last_body(provider: Provider) -> bytes:
    return next(
        (entry.body for entry in reversed(provider.served) if entry.key == THROUGH and entry.status == 200), b""
    )
