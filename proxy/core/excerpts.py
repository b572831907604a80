"""Offers an excerpt of every large tool result: its shape, its outline, or the lines that tell most. Pure."""

from __future__ import annotations

import re

from policies.kinds import kind_of_call
from proxy.core.forms import Parse, excerpt
from proxy.core.offers import Listed, Note, Offer
from proxy.core.texts import WORD, without_encoded

MIN_CHARS = 1_200
"""A shorter output is read as fast as its excerpt."""
MAX_TERMS = 400
_TELLING = re.compile(r"\d|_|[a-z][A-Z]|^[A-Z]{3,}$")


class ExcerptReader:
    """Reads one list. What the user named so far, and the call itself, decide what an excerpt keeps."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self._terms: dict[str, None] = {}

    def read(self, item: Listed) -> Note | None:
        element = item.element
        if element.role == "user" and element.kind == "message":
            self._learn(element.text)
        if element.kind != "tool_result" or not any(len(text) >= MIN_CHARS for text in element.texts):
            return None
        tool = item.call.name if item.call is not None else ""
        terms = self._terms.keys() | {word for word in WORD.findall(item.argument) if _TELLING.search(word)}
        kinds = []
        texts: list[str | None] = []
        for text in element.texts:
            made = None
            if len(text) >= MIN_CHARS:
                made = excerpt(
                    text,
                    id=item.id,
                    tool=tool,
                    failed=element.is_failed,
                    argument=item.argument,
                    terms=terms,
                    parse=self._parse,
                )
            # Single lines of a file that was read are not what it was read for: its outline is, or all of it.
            if made is not None and made.kind == "lines" and kind_of_call(tool, item.argument) == "read":
                made = None
            texts.append(made.text if made is not None else None)
            kinds += [made.kind] if made is not None else []
        return Note(Offer(kinds[0], tuple(texts))) if kinds else None

    def _learn(self, text: str) -> None:
        """Names that the user said: identifiers, ids, words in capitals. Of many the newest count."""
        for word in WORD.findall(without_encoded(text)):
            if _TELLING.search(word):
                self._terms.pop(word, None)
                self._terms[word] = None
        for word in list(self._terms)[:-MAX_TERMS]:
            del self._terms[word]
