"""Small readings of a text: its size in words, one line of it, its words, and itself without encoded data. Pure."""

from __future__ import annotations

import re
from collections.abc import Container

from policies.encoded import encoded_spans

INTRODUCED_WORDS = 4
WORD = re.compile(r"[A-Za-z_]\w{3,39}|\d{4,39}")
_IDENTIFIER = re.compile(r"\d|_|[a-z][A-Z]")
_LOG_HEAD = re.compile(r"\[\w+\]\s")


def size_words(chars: int) -> str:
    """A size as people and models read it: `14,213 chars`."""
    return f"{chars:,} char" if chars == 1 else f"{chars:,} chars"


def clip(text: str, chars: int) -> str:
    """One line of at most `chars` characters, with an ellipsis where it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def without_encoded(text: str, note: str = "[encoded data, {size}]") -> str:
    """The text with each run of encoded data as a whole replaced by `note`."""
    spans = encoded_spans(text)
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], note.format(size=size_words(end - start)))
        at = end
    return "".join([*parts, text[at:]])


def is_encoded(text: str) -> bool:
    """Is the text mainly a data URL or base64?"""
    return 2 * sum(end - start for start, end in encoded_spans(text)) > len(text)


def is_json_like(text: str) -> bool:
    """Does the text look like one JSON object or array?"""
    stripped = text.strip()
    return stripped[:1] + stripped[-1:] in ("{}", "[]") and not _LOG_HEAD.match(stripped)


def introduced_words(text: str, known: Container[str], count: int = INTRODUCED_WORDS) -> tuple[str, ...]:
    """Up to `count` words of `text` that are not in `known`: identifiers before plain words, then in order."""
    new: dict[str, None] = {}
    for word in WORD.findall(without_encoded(text)):
        if word not in known:
            new.setdefault(word)
    ranked = sorted(new, key=lambda word: not _IDENTIFIER.search(word))
    return tuple(ranked[:count])


def words_of(text: str) -> frozenset[str]:
    """Every word that `introduced_words` could name."""
    return frozenset(WORD.findall(without_encoded(text)))
