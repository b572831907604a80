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
MAX_CITED = 8
KEPT_TOKENS = 200_000
COMMON_FROM = 12
"""A token that so many items hold (the project's name) says nothing about where it came from."""

_TOKEN = re.compile(
    r"(?<![\w.@~/-])(?:[\w.@~-]{1,80}/){1,16}[\w.@-]{2,80}"  # paths
    r"|\b[\w-]{1,60}\.[A-Za-z]\w{0,5}\b"  # file names, attributes
    r"|#?\b(?=\w{0,60}\d)\w{5,60}\b"  # ids
    r"|\b[A-Za-z]{1,40}_\w{3,60}\b|\b[a-z]{1,40}[A-Z]\w{2,60}\b|\b[A-Z][a-z]{1,40}[A-Z]\w{1,60}\b"  # identifiers
)
"""Bounded throughout: no text takes more than linear time."""


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
    for match in _TOKEN.finditer(without_encoded(text[:SCANNED])):
        found.setdefault(match.group())
        if len(found) == MAX_TOKENS:
            break
    return list(found)


def link_type(element: Element) -> LinkType:
    """How an element draws on others: a call is derived from what named its arguments, a text cites."""
    return "derived_from" if element.calls else "cites"
