"""Is a draft fit to stand for its originals? Says why not. Pure."""

from __future__ import annotations

import re

from proxy.summaries.base import Draft

MOST_CHARS = 6_000
"""A summary longer than this is no summary of one segment."""
MOST_SHARE = 0.6
"""One that takes more than this share of its originals saves too little."""
SEALED_SHARE = 1.0
"""A sealed element is longer than what it takes in tokens; beyond its originals' own length it cannot be worth it."""

_CUT = frozenset({"length", "max_tokens", "incomplete", "max_output_tokens"})
_REFUSED = frozenset({"content_filter", "refusal", "safety"})
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_REFUSAL = re.compile(
    r"^\W*(?:i['’]?m sorry|i am sorry|sorry,|i (?:can(?:no|['’])t|am unable|am not able|won['’]t|cannot)\b|as an ai\b"
    r"|i must decline)",
    re.IGNORECASE,
)
_REFUSAL_CHARS = 400


def clean(text: str) -> str:
    """A draft's text without what a model thought aloud."""
    return _THOUGHT.sub("", text).strip()


def fault(draft: Draft, source_chars: int) -> str:
    """Why a draft is rejected; "" for a good one."""
    if draft.is_sealed:
        usage = draft.usage
        if not draft.text:
            return "empty"
        is_dear = usage is not None and usage.output > MOST_SHARE * usage.input
        return "saves too little" if is_dear or len(draft.text) > SEALED_SHARE * source_chars else ""
    text = clean(draft.text)
    if draft.has_calls:
        return "a tool call"
    if draft.is_refusal or draft.finish in _REFUSED:
        return "refused"
    if draft.finish in _CUT:
        return "cut"
    if not text:
        return "only reasoning" if draft.has_reasoning or draft.text.strip() else "empty"
    if len(text) < _REFUSAL_CHARS and _REFUSAL.match(text):
        return "refused"
    if len(text) > MOST_CHARS:
        return "too long"
    if len(text) > MOST_SHARE * source_chars:
        return "saves too little"
    return ""
