"""Plays a story through the real proxy over HTTP, between a scripted provider and an agent with its whole list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import httpx

from proxy.app import create_app
from proxy.audit.tables import form_name
from proxy.config import Config, LogConfig, load_config
from proxy.core.records import Entry
from proxy.demo.bill import CACHE_LEAST, CACHE_STEP
from proxy.demo.provider import Provider
from proxy.demo.serving import serving
from proxy.evaluation.results import CallBill, Check, MissingItem, TaskResult
from proxy.evaluation.scripted.reader import Reader, Seen
from proxy.evaluation.scripted.spec import Need, Story
from proxy.evaluation.scripted.world import World, where, whole
from proxy.evaluation.task import Budget
from proxy.logs import configure_logging
from proxy.store.open import open_store
from proxy.tokenizer import Tokenizer

MODEL = "scripted"
MOST_CALLS = 400
Message = dict[str, Any]


@dataclass(slots=True)
class Run:
    """What the agent's side saw. `windows` are the ids of what was sent, one for each of its requests."""

    world: World
    messages: list[Message] = field(default_factory=list)
    windows: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)  # messages of its list at each request
    error: str = ""


class Actor(Protocol):
    """Who plays the model. `seen` are the checked moves that were come to, `fetching` whether a request was a fetch."""

    @property
    def seen(self) -> Sequence[Seen]: ...
    @property
    def fetching(self) -> Sequence[bool]: ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens of a story: what is always there, and all of it."""

    pinned: int
    whole: int
    direct: tuple[CallBill, ...]


def sizes(story: Story, count: Tokenizer) -> Sizes:
    """The direct run's own bill, with the provider's cache, and its sizes."""
    tools = count.count(json.dumps(World(story).tools(), separators=(",", ":")))
    known: dict[str, int] = {}

    def tokens(message: Mapping[str, Any]) -> int:
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        if text not in known:
            known[text] = count.count(text)
        return known[text]

    bills, before = [], 0
    for messages in whole(story):
        size = tools + sum(tokens(message) for message in messages)
        cached = before // CACHE_STEP * CACHE_STEP if before >= CACHE_LEAST else 0
        bills.append(CallBill(size, cached, 20))
        before = size
    first = whole(story)[0]
    return Sizes(tools + sum(tokens(message) for message in first[:2]), before, tuple(bills))


@dataclass(frozen=True, slots=True)
class ScriptedTask:
    """A story as a task of the matrix."""

    story: Story
    source: str = "scripted"

    @property
    def name(self) -> str:
        return self.story.name

    @property
    def family(self) -> str:
        return self.story.family

    @property
    def digest(self) -> str:
        return self.story.digest

    def run(self, policy: str, budget: Budget) -> TaskResult:
        tokenizer = Tokenizer()
        size = sizes(self.story, tokenizer)
        # In full: nothing calls for less, not even what the proxy keeps free for its own errors in counting.
        limit = 2 * size.whole if budget.share == 1 else budget.of(size.pinned, size.whole)
        reader = Reader(self.story)
        provider = Provider(reader, window=limit, count=tokenizer.count)
        configure_logging(LogConfig(level="error"))
        with TemporaryDirectory(prefix="undercliff-eval-") as folder:
            db = Path(folder) / "run.db"
            (Path(folder) / "run.secret").write_bytes(
                self.digest.encode()[:32].ljust(32, b".")
            )  # the same ids each time
            with serving(provider) as upstream, serving(create_app(configured(upstream, db, policy, limit))) as url:
                run = play(self.story, f"{url}/v1")
            result = TaskResult(self.name, self.family, self.source, policy, budget.name, limit, error=run.error)
            return judge(result, run, reader, provider, size, asyncio.run(windows_of(db, run.windows)), tokenizer)


def configured(upstream: str, db: Path, policy: str, limit: int) -> Config:
    """The default configuration with a model of this window, filled as far as it may be.

    The caller is a team: a team's ids do not depend on the provider's address, so that every run has the same ones.
    """
    settings: dict[str, object] = {
        "upstream.url": f"{upstream}/v1",
        "store.url": str(db),
        "store.synchronous": "normal",
        "policy.name": policy,
        "window.guard_window_share": 0.97,
        "window.reply_allowance": 64,
        "expand.offer": "always" if policy in REDUCING else "with_reduction",
        "log.level": "error",
        "models.scripted": {"window": limit},
        "teams.eval": {"client_keys": ["eval"], "upstream": {"key_env": "EVAL_KEY"}},
    }
    return load_config(None, settings, {"EVAL_KEY": "eval"})


REDUCING = ("sticky", "selector", "greedy")


def play(story: Story, base_url: str, timeout_s: float = 120) -> Run:
    """The agent: says what the user says, runs what the model calls, keeps everything."""
    run = Run(World(story))
    run.messages.append({"role": "system", "content": story.system})
    tools = run.world.tools()
    with httpx.Client(
        base_url=base_url, headers={"authorization": "Bearer eval"}, timeout=timeout_s, trust_env=False
    ) as http:
        for text in _said(story):
            run.messages += [{"role": "user", "content": part} for part in text]
            while not run.error and _turn(run, http, tools):
                pass
            if run.error:
                break
    return run


def _said(story: Story) -> Iterator[list[str]]:
    """What the user says before the model is asked, again and again."""
    waiting: list[str] = []
    for move in story.moves:
        if move.said:
            waiting.append(move.said)
        elif waiting:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _turn(run: Run, http: httpx.Client, tools: Sequence[Any]) -> bool:
    """One call of the model. False when it has nothing more to do."""
    if len(run.windows) >= MOST_CALLS:
        run.error = f"the model made {MOST_CALLS} calls and did not end"
        return False
    body = {"model": MODEL, "messages": run.messages, "tools": tools}
    reply = http.post("/chat/completions", json=body)
    run.windows.append(reply.headers.get("x-undercliff-window", ""))
    run.lengths.append(len(run.messages))
    if reply.status_code != 200:
        run.error = f"{reply.status_code}: {reply.text[:200]}"
        return False
    message = reply.json()["choices"][0]["message"]
    run.messages.append({key: value for key, value in message.items() if key in ("role", "content", "tool_calls")})
    if message.get("content"):
        run.world.said.append(message["content"])
    for call in message.get("tool_calls") or ():
        text = run.world.run(call["function"]["name"], call["function"]["arguments"])
        run.messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return bool(message.get("tool_calls"))


async def windows_of(db: Path, ids: Sequence[str]) -> list[tuple[Entry, ...]]:
    """The entries of each window that was served; nothing where none was recorded."""
    store = open_store(db)
    await store.open()
    try:
        found = [await store.window(one) if one else None for one in ids]
        return [manifest.entries if manifest is not None else () for manifest in found]
    finally:
        await store.aclose()


# -- the verdict ---------------------------------------------------------------------------------------


def judge(
    result: TaskResult, run: Run, actor: Actor, provider: Provider, size: Sizes,
    windows: Sequence[tuple[Entry, ...]], tokenizer: Tokenizer,
) -> TaskResult:  # fmt: skip
    checks, missing = [], []
    for check, seen in zip(run.world.checks(), [*actor.seen, *[None] * MOST_CALLS], strict=False):
        if seen is None:  # the run broke off before
            checks.append(replace(check, passed=False, passed_expanded=False, why="not reached"))
            continue
        is_alone = check.passed and not seen.unmet and seen.has_rule
        why = "" if check.passed else _why(seen)
        checks.append(Check(check.name, is_alone, check.passed, why=why))
        for need in seen.unmet:
            missing.append(_missing(check.name, need, seen, run, windows, actor, tokenizer))
    good = [served for served in provider.served if served.status == 200]
    calls = tuple(
        CallBill(served.usage.input, served.usage.cached, served.usage.output, is_fetch)
        for served, is_fetch in zip(good, actor.fetching, strict=False)
    )
    needs = [(seen, need) for seen in actor.seen for need in seen.move.needs]
    left = sum(len(move.needs) for move in run.world.story.moves) - len(needs)
    kept = [min(now.cached + CACHE_STEP, before.input) / before.input for before, now in pairwise(calls)]
    return replace(
        result,
        checks=tuple(checks),
        missing=tuple(missing),
        needs=len(needs) + left,
        needs_met=sum(need not in seen.unmet for seen, need in needs),
        needs_met_expanded=sum(need not in seen.unmet_expanded for seen, need in needs),
        passed=bool(checks) and all(check.passed for check in checks) and not run.error,
        passed_expanded=bool(checks) and all(check.passed_expanded for check in checks) and not run.error,
        calls=calls,
        direct_calls=size.direct,
        reuse=round(sum(kept) / len(kept), 4) if kept else 1.0,
        breaks=sum(served.is_break for served in good),
        budget_use=round(max((call.input for call in calls), default=0) / result.budget_tokens, 4),
        over_budget=sum(call.input > result.budget_tokens for call in calls),
        invalid_windows=sum(
            served.status == 400 and "maximum context" not in served.refusal for served in provider.served
        ),
        expansions=sum(call.is_expand for call in calls),
        expansion_tokens=sum(call.input + call.output for call in calls if call.is_expand),
    )


def _why(seen: Seen) -> str:
    if not seen.has_rule:
        return f"the rule was out of sight: {seen.move.rule[:80]}"
    names = ", ".join(need.name for need in seen.unmet_expanded)
    return f"not to be found, or out of date: {names}" if names else "done otherwise"


def _missing(
    check: str, need: Need, seen: Seen, run: Run, windows: Sequence[tuple[Entry, ...]], actor: Actor,
    tokenizer: Tokenizer,
) -> MissingItem:  # fmt: skip
    """The item of the agent's list that said the value last, and what had become of it in the window."""
    asked = seen.at - sum(actor.fetching[: seen.at])  # fetches are between the proxy and the provider
    length = run.lengths[min(asked, len(run.lengths) - 1)]
    place = where(need.value, run.messages[:length])
    if place < 0:
        return MissingItem(check, f"{need.name} = {need.value}", "", "", 0, "nowhere", 0)
    message = run.messages[place]
    after = sum(tokenizer.count(json.dumps(one)) for one in run.messages[place + 1 : length])
    entries = windows[min(asked, len(windows) - 1)]
    items = _items(run, windows)
    entry = next((one for one in entries if one.item == items.get(place)), None)
    has_summary = bool({one.item for one in entries} - set(items.values()))
    return MissingItem(
        check=check,
        what=f"{need.name} = {need.value}",
        item=items.get(place, f"message {place}"),
        role=str(message["role"]),
        tokens=tokenizer.count(json.dumps(message)),
        form=form_name(entry.form) if entry else "folded" if has_summary else "absent",
        distance=after,
        score=entry.score if entry else None,
        reason=entry.reason if entry else "told by a summary" if has_summary else "left out",
        is_followable=seen.is_followable,
    )


def _items(run: Run, windows: Sequence[tuple[Entry, ...]]) -> dict[int, str]:
    """The item of each message of the agent's list: what is new since the request before stands at a window's end."""
    known: dict[int, str] = {}
    before = 0
    for length, entries in zip(run.lengths, windows, strict=True):
        if len(entries) >= length - before:
            for place, entry in zip(range(before, length), entries[len(entries) - (length - before) :], strict=True):
                known[place] = entry.item
        before = length
    return known
