"""Measures the items of a request: tokens in full and in every shorter form on offer. Decides nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from policies.model import NOT_OFFERED
from proxy.core import forms
from proxy.core.grouping import CallSite, pair_results
from proxy.core.model import Conversation, Element
from proxy.core.offers import Listed, MakeMaker, Note, Offer
from proxy.core.situation import Facts
from proxy.tokenizer import Tokenizer

MESSAGE_OVERHEAD = 4
"""Tokens a list element costs beyond its text."""
_FACTS_KEPT = 200_000


@dataclass(frozen=True, slots=True)
class Measured:
    """A request's items with their costs; lists are parallel to the conversation's elements."""

    conversation: str
    ids: tuple[str, ...]
    facts: tuple[Facts, ...]
    tokens: int  # of all items in full
    stale: frozenset[str] = frozenset()

    def new_tokens(self, known: Collection[str]) -> int:
        return sum(fact.tokens for fact in self.facts if fact.id not in known)


class Measurer:
    """Stateless but for caches. `makers` start one reader each of a list that may offer excerpts: see `core.offers`."""

    def __init__(self, tokenizer: Tokenizer, *, mask_chars: int, makers: Sequence[MakeMaker] = ()) -> None:
        self._tokenizer = tokenizer
        self._mask_chars = mask_chars
        self._makers = tuple(makers)
        self._facts: OrderedDict[tuple[str, bytes], Facts] = OrderedDict()

    async def measure(self, conversation: Conversation, conversation_id: str, ids: Sequence[str]) -> Measured:
        """Count what is not known yet; large texts are counted off the event loop."""
        elements = conversation.elements
        missing = [
            (index, element)
            for index, (item, element) in enumerate(zip(ids, elements, strict=True))
            if (item, element.body_hash) not in self._facts
        ]
        sites = pair_results(elements) if missing or self._makers else {}
        if missing:
            counts = await self._tokenizer.count_async([element.text for _, element in missing])
            for (index, element), count in zip(missing, counts, strict=True):
                fact = self._fact(element, ids[index], count, sites.get(index))
                self._facts[(fact.id, element.body_hash)] = fact
            while len(self._facts) > _FACTS_KEPT:
                self._facts.popitem(last=False)
        facts = [self._facts[(item, e.body_hash)] for item, e in zip(ids, elements, strict=True)]
        stale = self._read(elements, facts, sites) if self._makers else frozenset()
        return Measured(conversation_id, tuple(ids), tuple(facts), sum(fact.tokens for fact in facts), stale)

    def _fact(self, element: Element, item: str, count: int, site: CallSite | None) -> Facts:
        tokens = count + element.flat_tokens + MESSAGE_OVERHEAD
        if not element.texts:
            return Facts(id=item, tokens=tokens)
        tool = site.call.name if site is not None else ""
        argument = site.key_argument if site is not None else ""
        stubs = [self._stub(text, item, tool, argument, element.is_failed) for text in element.texts]
        kept, saved = self._shorter(element.texts, stubs)
        return Facts(
            id=item,
            tokens=tokens,
            stub_texts=kept if saved else (),
            stub_tokens=tokens - saved if saved else NOT_OFFERED,
            tool=tool,
            argument=argument,
            size_chars=sum(map(len, element.texts)),
        )

    def _stub(self, text: str, item: str, tool: str, argument: str, is_failed: bool) -> str | None:
        if len(text) <= self._mask_chars:
            return None
        return forms.stub(text, id=item, tool=tool, failed=is_failed, argument=argument)

    def _shorter(self, texts: Sequence[str], made: Sequence[str | None]) -> tuple[tuple[str | None, ...], int]:
        """The made texts where they take fewer tokens than the ones they stand for, and how many fewer in all."""
        kept: list[str | None] = []
        saved = 0
        for text, short in zip(texts, made, strict=True):
            gain = self._tokenizer.count(text) - self._tokenizer.count(short) if short is not None else 0
            kept.append(short if gain > 0 else None)
            saved += max(0, gain)
        return tuple(kept), saved

    # -- what makers offer -------------------------------------------------------------------------

    def _read(self, elements: Sequence[Element], facts: list[Facts], sites: dict[int, CallSite]) -> frozenset[str]:
        """Let every maker read the list. Their offers go into `facts`; the ids of what is stale come back."""
        stale: set[str] = set()
        makers = [make() for make in self._makers]
        for index, (element, fact) in enumerate(zip(elements, facts, strict=True)):
            site = sites.get(index)
            listed = Listed(fact.id, index, element, site.call if site is not None else None, fact.argument)
            for note in [found for maker in makers if (found := maker.read(listed)) is not None]:
                stale.update(note.stale)
                facts[index] = self._noted(facts[index], element, note)
        return frozenset(stale)

    def _noted(self, fact: Facts, element: Element, note: Note) -> Facts:
        if note.cites:
            fact = replace(fact, cites=(*fact.cites, *note.cites))
        if note.offer is not None and not fact.excerpt:
            fact = self._offered(fact, element, note.offer)
        return fact

    def _offered(self, fact: Facts, element: Element, offer: Offer) -> Facts:
        kept, saved = self._shorter(element.texts, offer.texts)
        if not saved:
            return fact
        return replace(
            fact,
            excerpt_texts=kept,
            excerpt_tokens=fact.tokens - saved,
            excerpt=offer.kind,
            bases=offer.bases,
        )

    def masked_tokens(self, fact: Facts, element: Element, texts: Sequence[str | None]) -> int:
        """Tokens of an item with `texts` in place of its own."""
        if texts is fact.stub_texts or texts == fact.stub_texts:
            return fact.stub_tokens
        if texts is fact.excerpt_texts or texts == fact.excerpt_texts:
            return fact.excerpt_tokens
        tokens = fact.tokens
        for text, short in zip(element.texts, texts, strict=False):
            if short is not None:
                tokens += self._tokenizer.count(short) - self._tokenizer.count(text)
        return max(0, tokens)
