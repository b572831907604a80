"""Any callable as a summarizer: `module:function`, plain or async, texts in and a text out."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable
from typing import Any

from proxy.errors import ConfigError
from proxy.summaries.base import Caller, Draft, Material, SummarizerError
from proxy.summaries.prompt import pieces

MOST_CHARS = 200_000
_FAILURES = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


class CustomSummarizer:
    """Calls the function with the segment's record as one text. A plain function runs in a thread."""

    seals = False

    def __init__(self, target: str) -> None:
        self._function = load(target)
        self.name = target
        self.version = str(getattr(self._function, "version", "1"))

    async def summarize(self, material: Material, caller: Caller) -> Draft:
        record = "\n".join(pieces(material.items, MOST_CHARS))
        try:
            if inspect.iscoroutinefunction(self._function):
                text = await self._function(record)
            else:
                text = await asyncio.to_thread(self._function, record)
        except _FAILURES as error:
            raise SummarizerError(f"{self.name} failed: {type(error).__name__}: {error}") from error
        return Draft(text if isinstance(text, str) else "", model=self.name)


def load(target: str) -> Callable[[str], Any]:
    """The function behind `module:function`. Raises `ConfigError`."""
    module, separator, name = target.partition(":")
    hint = "Write module:function, of a function that takes the record as a text and returns the summary."
    if not (module and separator and name):
        raise ConfigError(
            f"compaction.summarizer = {target!r} is neither digest, upstream, provider nor module:function", hint=hint
        )
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"compaction.summarizer = {target!r} cannot be loaded: {error}", hint=hint) from error
    if not callable(found):
        raise ConfigError(f"compaction.summarizer = {target!r} is not callable", hint=hint)
    function: Callable[[str], Any] = found
    return function
