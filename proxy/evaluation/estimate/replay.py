"""Plays a transcript through the real proxy: its own agent asks, a provider answers what was answered then and bills.

The windows are the product's, not an imitation of them. Nobody is asked for anything: server, store and provider live
on loopback, for as long as this takes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from proxy.app import create_app
from proxy.audit.tables import form_name
from proxy.config import Config, LogConfig, load_config
from proxy.core.model import Usage
from proxy.core.pricing import CACHE_STEP, ModelFacts, cost
from proxy.core.records import Manifest
from proxy.demo.provider import Answer, Provider, ScriptedCall
from proxy.demo.serving import serving
from proxy.evaluation.estimate.transcripts import Message, Transcript, turns
from proxy.logs import configure_logging
from proxy.prices import PriceBook
from proxy.store.open import open_store
from proxy.tokenizer import Tokenizer

UNKNOWN_MODEL = "gpt-5"
"""Whose prices and window are taken where neither the file nor the caller names a model."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model, as it was and as it would have been. Costs in dollars, None without a price."""

    direct: Usage
    through: Usage
    direct_cost: float | None
    cost: float | None
    is_break: bool


@dataclass(frozen=True, slots=True)
class Left:
    """An item that at some time did not go out in full. `at` is the number of that call, counted from 1."""

    item: str
    form: str
    tokens: int
    at: int
    reason: str


@dataclass(slots=True)
class Estimate:
    """A transcript's bill. `cliff` is the model's first price cliff in input tokens, 0 for none."""

    name: str
    model: str
    window: int
    cliff: int
    calls: list[Call] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    folds: int = 0
    skipped: int = 0

    @property
    def direct_cost(self) -> float | None:
        return _sum([call.direct_cost for call in self.calls])

    @property
    def cost(self) -> float | None:
        return _sum([call.cost for call in self.calls])

    @property
    def share(self) -> float:
        """Of the direct bill; by tokens at a tenth for cached ones where no price is known."""
        if self.cost is not None and self.direct_cost:
            return self.cost / self.direct_cost
        direct = sum(_weight(call.direct) for call in self.calls)
        return sum(_weight(call.through) for call in self.calls) / direct if direct else 1.0

    @property
    def crossed_at(self) -> int:
        """The first call above the cliff as it was, counted from 1; 0 for never."""
        return next((n for n, call in enumerate(self.calls, 1) if self.cliff and call.direct.input > self.cliff), 0)

    @property
    def too_large_at(self) -> int:
        """The first call that did not fit the model's window as it was; 0 for never."""
        return next((n for n, call in enumerate(self.calls, 1) if call.direct.input > self.window), 0)


def _weight(usage: Usage) -> float:
    return usage.input - 0.9 * usage.cached


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def estimate(
    transcript: Transcript, *, model: str = "", policy: str = "sticky", facts: ModelFacts | None = None,
    on_call: Callable[[], None] = lambda: None,
) -> Estimate:  # fmt: skip
    """The whole transcript under a policy. `model` and `facts` stand over what the file and the price list say."""
    name = model or transcript.model or UNKNOWN_MODEL
    facts = facts or PriceBook("https://api.openai.com/v1").facts(name)
    tokenizer = Tokenizer()
    configure_logging(LogConfig(level="error"))
    made = Estimate(transcript.name, name, facts.window, facts.cliff or 0, skipped=transcript.skipped)
    player = _Player(transcript.messages)
    provider = Provider(player, window=10**9, count=tokenizer.count)
    with TemporaryDirectory(prefix="undercliff-estimate-") as folder:
        db = Path(folder) / "run.db"
        with (
            serving(provider) as upstream,
            serving(create_app(_config(f"{upstream}/v1", db, policy, name, facts))) as url,
        ):
            windows = _play(transcript.messages, f"{url}/v1", name, on_call)
        _bill(made, transcript.messages, provider, facts, tokenizer)
        asyncio.run(_look(made, db, windows))
    return made


class _Player:
    """The provider's script: the answer that was given at this point of the transcript."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._answers = [_answer(messages[place]) for place in turns(messages)]
        self._next = 0

    def __call__(self, messages: Sequence[dict[str, Any]]) -> Answer:
        answer = self._answers[self._next]
        self._next += 1
        return answer


def _answer(message: Message) -> Answer:
    calls = tuple(
        ScriptedCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", ())
    )
    return Answer(str(message.get("content") or ""), calls)


def _config(upstream: str, db: Path, policy: str, model: str, facts: ModelFacts) -> Config:
    """The product's defaults. What it knows of the model is what the estimate is made with."""
    known: dict[str, object] = {"window": facts.window, "cliff": facts.cliff or 0}
    if facts.rates is not None:
        rates = facts.rates
        known |= {"input_price": rates.input, "cached_price": rates.cached, "output_price": rates.output}
        known["write_price"] = rates.written
    settings: dict[str, object] = {
        "upstream.url": upstream,
        "store.url": str(db),
        "store.synchronous": "normal",
        "policy.name": policy,
        "log.level": "error",
        f"models.{model}": known,
    }
    return load_config(None, settings, {})


def _play(messages: Sequence[Message], base_url: str, model: str, on_call: Callable[[], None]) -> list[str]:
    """Asks as the agent asked. Returns the windows' ids."""
    texts = [json.dumps(message, separators=(",", ":"), ensure_ascii=False) for message in messages]
    start = f'{{"model":{json.dumps(model)},"messages":['
    windows = []
    head = {"authorization": "Bearer estimate", "content-type": "application/json"}
    with httpx.Client(base_url=base_url, headers=head, timeout=600, trust_env=False) as http:
        for place in turns(messages):
            body = f"{start}{','.join(texts[:place])}]}}".encode("utf-8", "surrogatepass")
            reply = http.post("/chat/completions", content=body)
            reply.raise_for_status()
            windows.append(reply.headers.get("x-undercliff-window", ""))
            on_call()
    return windows


def _bill(
    made: Estimate, messages: Sequence[Message], provider: Provider, facts: ModelFacts, tokenizer: Tokenizer
) -> None:
    sizes = [tokenizer.count(json.dumps(m, separators=(",", ":"), ensure_ascii=False)) for m in messages]
    before = 0
    good = [served for served in provider.served if served.status == 200]
    for place, served in zip(turns(messages), good, strict=True):
        size = sum(sizes[:place])
        cached = before // CACHE_STEP * CACHE_STEP if before >= facts.cache_min else 0
        direct = Usage(size, served.usage.output, cached=cached)
        made.calls.append(Call(direct, served.usage, cost(direct, facts), cost(served.usage, facts), served.is_break))
        before = size


async def _look(made: Estimate, db: Path, windows: Sequence[str]) -> None:
    """What was left out, and when first."""
    store = open_store(db)
    await store.open()
    try:
        sizes: dict[str, int] = {}
        known: set[str] = set()
        for number, window in enumerate(windows, start=1):
            manifest = await store.window(window) if window else None
            if manifest is not None:
                made.left += _newly_left(manifest, number, sizes, known)
        for conversation in await store.conversations():
            made.folds += len(await store.folds(conversation.id))
    finally:
        await store.aclose()


def _newly_left(manifest: Manifest, number: int, sizes: dict[str, int], known: set[str]) -> list[Left]:
    found = []
    present = set()
    for entry in manifest.entries:
        form = form_name(entry.form)
        present.add(entry.item)
        if form == "full":
            sizes[entry.item] = entry.tokens
        elif entry.item not in known and entry.item in sizes:
            known.add(entry.item)
            found.append(Left(entry.item, form, sizes[entry.item], number, entry.reason))
    for item in [item for item in sizes if item not in present and item not in known]:
        known.add(item)
        found.append(Left(item, "folded", sizes[item], number, "told by a summary"))
    return found
