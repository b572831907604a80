"""User text as a literal query: what to ask the index for, and what to look for letter by letter. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

_EDGES = "\"'`.,;:!?()[]{}<>\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """`match` is an FTS5 expression of quoted phrases ("" finds nothing).

    The index splits words at signs, so that C++ would find every C: `literals` are the words with
    signs inside, which a hit's text must contain as they stand.
    """

    match: str
    literals: tuple[str, ...]
    phrases: tuple[str, ...] = ()
    """The same phrases without quotes, for another index."""

    def accepts(self, text: str) -> bool:
        folded = _folded(text) if self.literals else ""
        return all(literal in folded for literal in self.literals)


def parse_query(text: str) -> SearchQuery:
    phrases: list[str] = []
    literals: list[str] = []
    for word in text.replace("\0", " ").encode("utf-8", "replace").decode().split():
        if any(letter.isalnum() for letter in word):
            phrases.append(word)
        bare = word.strip(_EDGES)
        if bare and not bare.isalnum():
            literals.append(_folded(bare))
    quoted = ['"' + phrase.replace('"', '""') + '"' for phrase in phrases]
    return SearchQuery(match=" ".join(quoted), literals=tuple(literals), phrases=tuple(phrases))


def _folded(text: str) -> str:
    return text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold()
