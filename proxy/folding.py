"""Makes the fold that a policy asks for: one digest item over whole groups, in a bounded number of tokens. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from policies.draft import DIGEST_LIMIT, digest_allowance
from proxy.core.digest import DigestCall, DigestItem, digest
from proxy.core.grouping import groups, key_argument
from proxy.core.identity import item_id
from proxy.core.model import Element
from proxy.core.offers import KeepRenderer
from proxy.core.situation import Facts, kind_of
from proxy.core.window import Fold
from proxy.tokenizer import Tokenizer

CHARS_PER_TOKEN = 4
"""Where the fitting of a digest starts; dense text gets fewer characters."""
ROOM_PER_DIGEST = 12
"""A digest may always take this part of the window's room."""


@dataclass(frozen=True, slots=True)
class FoldSource:
    """The request that a fold is made from; `facts` are parallel to `elements`.

    `keeps`: segments of covered items that stay word for word, by item id (see `policies.model.Choice.keep`).
    """

    conversation: str  # id
    elements: Sequence[Element]
    facts: Sequence[Facts]
    room: int  # tokens of the whole window
    keeps: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class FoldMaker:
    """Stateless but for caches: the same originals give the same text."""

    def __init__(
        self, tokenizer: Tokenizer, digest_chars: int = 8000, *, render_keep: KeepRenderer | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._digest_chars = digest_chars
        self._render_keep = render_keep

    def make(self, source: FoldSource, old: Fold | None, covers: tuple[str, ...], reason: str) -> Fold | None:
        """The fold that covers those items; the old one while it covers the same."""
        if not covers:
            return None
        if old is not None and old.covers == covers and source.keeps in ({}, old.keeps):
            return old
        covered = frozenset(covers)
        items = digest_items(source, covered)
        calls = sum(item.kind == "tool_result" for item in items)
        # What the policy reckoned with; more only where it is a small part of the window.
        tokens = max(digest_allowance(calls), min(DIGEST_LIMIT, source.room // ROOM_PER_DIGEST))
        text = self._fit(items, _text_after(source, covered), tokens)
        text = "\n".join([text, *self._kept(source)])
        content = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return Fold(covers, item_id(source.conversation, content, 0), text, reason, dict(source.keeps))

    def _kept(self, source: FoldSource) -> list[str]:
        """The covered items of which segments stay, each with those segments."""
        render, keeps = self._render_keep, source.keeps
        if render is None or not keeps:
            return []
        return [
            render(
                element.text,
                keeps[fact.id],
                id=fact.id,
                tool=fact.tool or element.role,
                failed=element.is_failed,
                argument=fact.argument,
            )
            for element, fact in zip(source.elements, source.facts, strict=True)
            if fact.id in keeps
        ]

    def _fit(self, items: Sequence[DigestItem], later_text: str, tokens: int) -> str:
        """A digest of at most so many tokens, unless its opening line alone is longer."""
        chars = min(self._digest_chars, CHARS_PER_TOKEN * tokens)
        while True:
            text = digest(items, max_chars=chars, later_text=later_text)
            count = self._tokenizer.count(text)
            if count <= tokens or chars < tokens:
                return text
            chars = chars * tokens // (count + count // 16)


def digest_items(source: FoldSource, covers: frozenset[str]) -> list[DigestItem]:
    """The covered items as the digest reads them."""
    numbers = groups(source.elements)
    return [
        _digest_item(element, fact, numbers[index])
        for index, (element, fact) in enumerate(zip(source.elements, source.facts, strict=True))
        if fact.id in covers
    ]


def _digest_item(element: Element, fact: Facts, group: int) -> DigestItem:
    text = element.text
    if element.role == "assistant":  # its calls are listed by themselves
        text = next((atom.text for atom in element.atoms if atom.kind == "asst"), "")
    return DigestItem(
        id=fact.id,
        kind=kind_of(element),
        role=element.role,
        text=text,
        calls=tuple(DigestCall(c.name, c.arguments, key_argument(c.arguments)) for c in element.calls),
        tool=fact.tool,
        argument=fact.argument,
        is_failed=element.is_failed,
        size_chars=fact.size_chars,
        group=group,
    )


def _text_after(source: FoldSource, covers: frozenset[str]) -> str:
    pairs = zip(source.elements, source.facts, strict=True)
    return "\n".join(element.text for element, fact in pairs if fact.id not in covers and element.text)
