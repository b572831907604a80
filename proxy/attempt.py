"""What an attempt's outcome calls for: pass it on, or send one other request unseen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from proxy.core.overflow import Overflow, classify, is_bodiless_overflow
from proxy.core.overflow_rules import Rules
from proxy.wire.errors import load, loads_text, names_option

REFUSALS = frozenset({400, 404, 409, 413, 415, 422})
"""Statuses by which a provider refuses a list; a rewritten list refused so is sent once more as it came."""

USAGE_OPTIONS = ("stream_options", "include_usage")


class Verdict(Enum):
    """What an attempt calls for."""

    PASS_ON = auto()
    OVERFLOW = auto()
    WITHOUT_USAGE = auto()  # the provider refuses the usage option that we added
    AS_IT_CAME = auto()  # the provider refuses our list for another reason


@dataclass(frozen=True, slots=True)
class Shown:
    """An attempt as far as it was seen: status, an error body or an error inside a 200 stream."""

    status: int
    error: bytes
    is_streamed: bool
    has_content: bool
    is_rewritten: bool
    asked_usage: bool
    estimate: int
    window: int | None


def judge(shown: Shown, rules: Rules) -> tuple[Verdict, Overflow | None]:
    """The verdict on one attempt; the overflow where that is what it is."""
    if shown.has_content:
        return Verdict.PASS_ON, None
    if shown.status < 400 and not shown.error:
        return Verdict.PASS_ON, None
    if shown.asked_usage and shown.status in (400, 422) and any(names_option(shown.error, o) for o in USAGE_OPTIONS):
        return Verdict.WITHOUT_USAGE, None
    value = load(shown.error)
    overflow = classify(shown.status, value, is_streamed=shown.is_streamed, rules=rules, loads=loads_text)
    if overflow is None and is_bodiless_overflow(shown.status, len(shown.error), shown.estimate, shown.window):
        overflow = Overflow()
    if overflow is not None:
        return Verdict.OVERFLOW, overflow
    if shown.is_rewritten and shown.status in REFUSALS:
        return Verdict.AS_IT_CAME, None
    return Verdict.PASS_ON, None


def error_text(body: bytes) -> str:
    """A short text for the record of what the provider said."""
    value: Any = load(body)
    for key in ("error", "message", "detail"):
        if isinstance(value, Mapping) and value.get(key):
            value = value[key]
    if isinstance(value, Mapping):
        value = value.get("message", value)
    # Else the body's own text: a value nested too deeply cannot be printed.
    return (value if isinstance(value, str) else body.decode("utf-8", "replace"))[:500]
