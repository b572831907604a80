"""Ages groups by last use: one that a recent action named by a rare word is still in use, however old it is."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from policies.model import Candidate

_WORD = re.compile(r"[\w.@#/-]{4,80}")
_IS_TELLING = re.compile(r"\d{3}|[a-z][A-Z]|\w[_/.]\w|\d[a-z]|[a-z]\d")
_HELD_BY_AT_MOST = 2
_CACHE_SIZE = 20_000


class WordIndex:
    """The telling words (paths, identifiers, ids, numbers) of items, read once each."""

    def __init__(self) -> None:
        self._known: Final[dict[tuple[str, int], frozenset[str]]] = {}

    def words(self, candidate: Candidate) -> frozenset[str]:
        key = (candidate.id, hash(candidate.text))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            found = telling_words(candidate.text)
            self._known[key] = found
        return found


def telling_words(text: str) -> frozenset[str]:
    """Words that name one thing: paths and their last parts, identifiers, ids, numbers."""
    words: set[str] = set()
    for word in _WORD.findall(text):
        word = word.strip("./-#")
        if len(word) >= 4 and _IS_TELLING.search(word):
            words.add(word)
            if "/" in word and len(tail := word.rsplit("/", 1)[1]) >= 4:
                words.add(tail)
    return frozenset(words)


def groups_in_use(candidates: Sequence[Candidate], index: WordIndex, last_calls: int) -> frozenset[int]:
    """Groups of which an action in the last `last_calls` calls named a word that few earlier items hold.

    Pass live items only: what is folded already neither needs holding nor makes a word common.
    """
    newest = max((candidate.call for candidate in candidates), default=0)
    actions = [
        (position, candidate)
        for position, candidate in enumerate(candidates)
        if candidate.kind == "assistant" and candidate.call > newest - last_calls
    ]
    asked = frozenset().union(*(index.words(candidate) for _, candidate in actions))
    if not asked:
        return frozenset()
    holders: dict[str, list[int]] = defaultdict(list)
    for position, candidate in enumerate(candidates):
        for word in index.words(candidate) & asked:
            holders[word].append(position)
    used: set[int] = set()
    for position, candidate in actions:
        for word in index.words(candidate):
            earlier: list[int] = []
            for holder in holders[word]:
                if holder >= position or len(earlier) > _HELD_BY_AT_MOST:
                    break
                earlier.append(holder)
            if len(earlier) <= _HELD_BY_AT_MOST:
                used.update(candidates[holder].group for holder in earlier)
    return frozenset(used)
