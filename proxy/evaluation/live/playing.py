"""A story with a real model in its checked parts, as a task: through the real proxy, judged by what was done."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from proxy.app import create_app
from proxy.config import LogConfig
from proxy.demo.serving import serving
from proxy.errors import UndercliffError
from proxy.evaluation.live.briefing import briefed, parts
from proxy.evaluation.live.endpoint import Endpoint
from proxy.evaluation.live.purse import Purse
from proxy.evaluation.live.stage import Stage, unscripted
from proxy.evaluation.results import TaskResult
from proxy.evaluation.scripted.playing import Run, configured, judge, play, sizes, windows_of
from proxy.evaluation.scripted.spec import Story
from proxy.evaluation.task import Budget
from proxy.logs import configure_logging
from proxy.tokenizer import Tokenizer

PATIENCE_S = 240.0
"""How much longer than one call the agent waits: for repeats, and for the model's fetches."""


@dataclass(frozen=True, slots=True)
class LiveTask:
    """One repeat of a story. `story` is as it is told to scripted models. Stays in its process: it holds a purse."""

    story: Story
    endpoint: Endpoint
    purse: Purse
    repeat: int = 1
    source: str = "live"

    @property
    def name(self) -> str:
        return f"{self.story.name}#{self.repeat}"

    @property
    def family(self) -> str:
        return self.story.family

    @property
    def digest(self) -> str:
        """Of the story, the model and how it is asked; not of the key."""
        asked = (self.endpoint.url, self.endpoint.model, self.endpoint.most_output, dict(self.endpoint.settings))
        return sha256(repr((self.story.digest, asked, self.repeat)).encode()).hexdigest()[:16]

    def run(self, policy: str, budget: Budget) -> TaskResult:
        """Raises `UndercliffError` where it could not be played to its end for want of money or of a provider."""
        story = briefed(self.story)
        tokenizer = Tokenizer()
        size = sizes(story, tokenizer)
        limit = 2 * size.whole if budget.share == 1 else budget.of(size.pinned, size.whole)
        stage = Stage(
            script=unscripted, window=limit, count=tokenizer.count,
            parts=parts(story), endpoint=self.endpoint, purse=self.purse,
        )  # fmt: skip
        configure_logging(LogConfig(level="error"))
        with TemporaryDirectory(prefix="undercliff-live-") as folder:
            db = Path(folder) / "run.db"
            with serving(stage) as upstream, serving(create_app(configured(upstream, db, policy, limit))) as url:
                run = _play(story, f"{url}/v1", self.endpoint.timeout_s + PATIENCE_S)
            if stage.trouble is not None:
                raise stage.trouble
            result = TaskResult(self.name, self.family, self.source, policy, budget.name, limit, error=run.error)
            windows = asyncio.run(windows_of(db, run.windows))
        return _billed(judge(result, run, stage, stage, size, windows, tokenizer), stage)


def _play(story: Story, url: str, timeout_s: float) -> Run:
    try:
        return play(story, url, timeout_s)
    except httpx.HTTPError as error:
        raise UndercliffError(
            f"{story.name} broke off: {type(error).__name__} {error}", hint="Run it again: what was done is kept."
        ) from error


def _billed(result: TaskResult, stage: Stage) -> TaskResult:
    """With the model's own bills where it was asked."""
    calls = tuple(stage.real.get(number, call) for number, call in enumerate(result.calls))
    fetched = sum(call.input + call.output for call in calls if call.is_expand)
    return replace(result, calls=calls, expansion_tokens=fetched)
