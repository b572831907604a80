"""Which earlier items an item draws on: by the paths, ids and identifiers that they brought in. Pure.

Reads a list item by item; what an item costs follows its own text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from proxy.core.model import Element
from proxy.core.offers import Listed, Note
from proxy.core.records import LinkType
from proxy.core.texts import without_encoded

SCANNED = 60_000
"""Characters read of one text: an agent takes up what stands early, or what a query brought out."""
MAX_TOKENS = 2_000
MIN_CHARS = 5
MAX_CITED = 8
KEPT_TOKENS = 200_000
COMMON_FROM = 12
"""A token that so many items hold (the project's name) says nothing about where it came from."""

_TOKEN = re.compile(r"[#\w./@~-]{5,120}")
_TELLING = re.compile(r"[\d_/]|[a-z][A-Z]|\w\.[A-Za-z]")
"""A path, a file name or attribute, an id, an identifier; a plain word is none of them."""


class LinkReader:
    """Knows which item brought each token into the conversation first."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._seen: Counter[str] = Counter()

    def read(self, item: Listed) -> Note | None:
        element = item.element
        found = tokens_of(element.text)
        cited: tuple[str, ...] = ()
        # A result comes from its call; what the model and the user write is what draws on things.
        if element.kind != "tool_result" and element.role not in ("system", "developer"):
            cited = self._cited(found, item.id)
        for token in found:
            self._first.setdefault(token, item.id)
            self._seen[token] += 1
        while len(self._first) > KEPT_TOKENS:
            oldest = next(iter(self._first))
            del self._first[oldest], self._seen[oldest]
        return Note(cites=cited) if cited else None

    def _cited(self, found: Sequence[str], own: str) -> tuple[str, ...]:
        """Items that brought in what this one uses, the most used first; ties go to the newer token in the text."""
        counts: Counter[str] = Counter()
        for token in found:
            source = self._first.get(token)
            if source is not None and source != own and self._seen[token] < COMMON_FROM:
                counts[source] += 1
        return tuple(source for source, _ in counts.most_common(MAX_CITED))


def tokens_of(text: str) -> list[str]:
    """The distinct paths, ids and identifiers of a text, in order, as many as are looked at."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(_TOKEN.findall(without_encoded(text[:SCANNED]))):
        if word.isalpha() and (word.islower() or word.istitle()):
            continue  # a plain word, as most are
        token = word.strip(".-~/@")
        if len(token) >= MIN_CHARS and _TELLING.search(token):
            found.setdefault(token)
            if len(found) == MAX_TOKENS:
                break
    return list(found)


def link_type(element: Element) -> LinkType:
    """How an element draws on others: a call is derived from what named its arguments, a text cites."""
    return "derived_from" if element.calls else "cites"
