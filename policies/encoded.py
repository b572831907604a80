"""Finds encoded data (data URLs, base64) in a text: it stands whole or not at all. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

MIN_TEXT = 200
"""Shorter texts hold no run worth telling from words."""

_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*,[A-Za-z0-9+/=_%-]*")
_BASE64_RUN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{200,}={0,2}(?:\r?\n[A-Za-z0-9+/_-]{60,}={0,2})*")
_BASE64_LINES = re.compile(r"(?:^[A-Za-z0-9+/]{60,80}={0,2}\r?\n){4,}(?:^[A-Za-z0-9+/]{1,80}={0,2}$)?", re.MULTILINE)
LONG_WORD = 60
_LONG_WORD = re.compile(rf"[A-Za-z0-9+/_-]{{{LONG_WORD}}}")
_SAMPLE = 400
KEPT_CHARS = 1_000_000


def encoded_spans(text: str) -> list[tuple[int, int]]:
    """Where runs of encoded data lie, in order and without overlap."""
    if len(text) < MIN_TEXT:
        return []
    return list(_spans(text) if len(text) <= KEPT_CHARS else _spans.__wrapped__(text))


@lru_cache(maxsize=8)
def _spans(text: str) -> tuple[tuple[int, int], ...]:
    """Several readers look at one text in turn."""
    if "data:" not in text and not _has_long_word(text):
        return ()
    found: list[tuple[int, int]] = []
    for pattern in (_DATA_URL, _BASE64_LINES, _BASE64_RUN):
        for match in pattern.finditer(text):
            run = match.group()
            if run.startswith("data:") or looks_base64(run):
                found.append((match.start(), match.start() + len(run.rstrip("\r\n"))))
    return tuple(_disjoint(sorted(found)))


def _has_long_word(text: str) -> bool:
    """Splitting finds most texts without one, a little sooner than the pattern does."""
    return max(map(len, text.split()), default=0) >= LONG_WORD and _LONG_WORD.search(text) is not None


def looks_base64(run: str) -> bool:
    """Mixed enough to be data: a rule of dashes or a row of one letter is not."""
    sample = run[:_SAMPLE]
    has_kinds = (
        any(c.isupper() for c in sample) and any(c.islower() for c in sample) and any(c.isdigit() for c in sample)
    )
    return has_kinds and len(set(sample)) >= 20


def _disjoint(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out
