"""Measures the items of a request: tokens in full and in every shorter form on offer. Decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from policies.model import NOT_OFFERED
from proxy.core import forms
from proxy.core.expanding import source_of
from proxy.core.grouping import CallSite
from proxy.core.listing import Listing, Listings, absent
from proxy.core.model import Conversation, Element
from proxy.core.offers import Listed, MakeMaker, Maker, Note, Offer
from proxy.core.receipts import prepare
from proxy.core.situation import Facts
from proxy.tokenizer import Tokenizer

MESSAGE_OVERHEAD = 4
"""Tokens a list element costs beyond its text."""
ITEM_BYTES = 4_000
READ_CHARS = 1_000_000
"""A longer text is not read for excerpts: line by line that takes seconds. It has its stub."""
INLINE_ITEMS = 64
"""Up to so many new items are read on the event loop."""


@dataclass(slots=True)
class Reading:
    """The makers of a list with what they have read, and what they found stale. One list's at a time."""

    makers: list[Maker]
    count: int = 0
    stale: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A request's items with their costs; lists are parallel to the conversation's elements."""

    conversation: str
    ids: tuple[str, ...]
    facts: tuple[Facts, ...]
    tokens: int  # of all items in full
    listing: Listing
    stale: frozenset[str] = frozenset()
    reading: Reading | None = None
    fresh: int = 0  # so many items the branch's last request did not have

    @property
    def is_large(self) -> bool:
        """Is so much of it new that working on it would hold the event loop?"""
        return self.fresh > INLINE_ITEMS

    @property
    def size_bytes(self) -> int:
        """About what keeping this keeps in memory: an element's bytes and texts, and what is known of it."""
        return 2 * self.listing.size_bytes + ITEM_BYTES * len(self.ids)

    def part(self, ids: Sequence[str], listing: Listing) -> Measured:
        """What is known of some of the items, in order; `listing` is theirs. Nothing is read again."""
        known = {fact.id: fact for fact in self.facts}
        facts = tuple([known[item] for item in ids])
        return Measured(self.conversation, tuple(ids), facts, sum([fact.tokens for fact in facts]), listing, self.stale)

    def new_tokens(self, known: Collection[str]) -> int:
        """Tokens of the items that are not in `known`."""
        return sum([self.facts[index].tokens for index in absent(self.ids, known)])


class Measurer:
    """Without state but for caches. `makers` start one reader each of a list that may offer excerpts."""

    def __init__(self, tokenizer: Tokenizer, *, mask_chars: int, makers: Sequence[MakeMaker] = ()) -> None:
        self._tokenizer = tokenizer
        self._mask_chars = mask_chars
        self._makers = tuple(makers)
        self.listings = Listings()

    async def listing(self, conversation: Conversation) -> Listing:
        """The listing of a conversation; much that is new in it is read off the event loop."""
        elements, head = conversation.elements, conversation.head
        base = self.listings.base(elements, head)
        if len(elements) - (len(base.elements) if base is not None else 0) <= INLINE_ITEMS:
            return self.listings.of(elements, head)
        return await self._tokenizer.run(self._list, elements, head)

    def _list(self, elements: tuple[Element, ...], head: int) -> Listing:
        listing = self.listings.of(elements, head)
        prepare(listing.path.steps)
        return listing

    async def measure(
        self, conversation: Conversation, conversation_id: str, ids: Sequence[str], last: Measured | None = None
    ) -> Measured:
        """The items with their costs. What `last` knows, of the branch's last request, is taken from there."""
        listing = await self.listing(conversation)
        items = tuple(ids)
        start = _shared(listing, items, last)
        if last is not None and start == len(items) == len(last.ids):
            return replace(last, fresh=0) if last.fresh else last
        fresh = listing.elements[start:]
        if len(fresh) <= INLINE_ITEMS and self._tokenizer.is_quick([element.text for element in fresh]):
            return self._measure(conversation_id, listing, items, start, last, conversation.hidden)
        return await self._tokenizer.run(
            self._measure, conversation_id, listing, items, start, last, conversation.hidden
        )

    def _measure(
        self, conversation_id: str, listing: Listing, ids: tuple[str, ...], start: int, last: Measured | None,
        hidden: frozenset[str],
    ) -> Measured:  # fmt: skip
        facts = list(last.facts[:start]) if last is not None else []
        for index in range(start, len(ids)):
            element, item = listing.elements[index], ids[index]
            source = source_of(element.text) if item in hidden else None
            count = self._tokenizer.count(element.text)
            facts.append(self._fact(element, item, count, listing.sites.get(index), source))
        reading, stale = None, frozenset[str]()
        if self._makers:
            reading, stale = self._read(listing, facts, start, last)
        tokens = sum([fact.tokens for fact in facts])
        return Measured(conversation_id, ids, tuple(facts), tokens, listing, stale, reading, len(ids) - start)

    def _fact(
        self, element: Element, item: str, count: int, site: CallSite | None, source: tuple[str, str] | None
    ) -> Facts:
        """`source`: id and title of the original that this is a copy of; what stands for it names that one."""
        tokens = count + element.flat_tokens + MESSAGE_OVERHEAD
        if not element.texts:
            return Facts(id=item, tokens=tokens)
        tool = site.call.name if site is not None else ""
        argument = site.key_argument if site is not None else ""
        named = item
        if source is not None:
            (named, tool), argument = source, ""
        stubs = [self._stub(text, named, tool, argument, element.is_failed) for text in element.texts]
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

    def _read(
        self, listing: Listing, facts: list[Facts], start: int, last: Measured | None
    ) -> tuple[Reading, frozenset[str]]:
        """Let every maker read what it has not read yet. Offers go into `facts`; the ids of what is stale come back."""
        reading = last.reading if last is not None and start == len(last.ids) else None
        if reading is None or reading.count != start:
            reading = Reading([make() for make in self._makers])
        for index in range(reading.count, len(facts)):
            element, fact, site = listing.elements[index], facts[index], listing.sites.get(index)
            call = site.call if site is not None else None
            if call is not None and fact.tool not in ("", call.name):
                call = replace(call, name=fact.tool)
            listed = Listed(fact.id, index, element, call, fact.argument)
            for maker in reading.makers if len(element.text) <= READ_CHARS else ():
                note = maker.read(listed)
                if note is not None:
                    reading.stale.update(note.stale)
                    facts[index] = self._noted(facts[index], element, note) if index >= start else facts[index]
        reading.count = len(facts)
        if last is not None and len(last.stale) == len(reading.stale) and last.stale == reading.stale:
            return reading, last.stale
        return reading, frozenset(reading.stale)

    def _noted(self, fact: Facts, element: Element, note: Note) -> Facts:
        if note.cites or note.ends_subtask:
            fact = replace(
                fact,
                cites=(*fact.cites, *note.cites),
                ends_subtask=fact.ends_subtask or note.ends_subtask,
                steps=(*fact.steps, *note.steps),
            )
        if note.offer is not None and not fact.excerpt:
            fact = self._offered(fact, element, note.offer)
        return fact

    def _offered(self, fact: Facts, element: Element, offer: Offer) -> Facts:
        kept, saved = self._shorter(element.texts, offer.texts)
        if not saved or fact.tokens - saved <= fact.stub_tokens:  # every form is shorter than the next
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


def _shared(listing: Listing, ids: tuple[str, ...], last: Measured | None) -> int:
    """How many items at the start are the last request's. What is known of an item follows from those before it."""
    if last is None:
        return 0
    old = last.listing.elements
    limit = min(len(old), len(ids), len(last.ids))
    if listing.elements[:limit] == old[:limit] and ids[:limit] == last.ids[:limit]:
        return limit
    pairs = zip(listing.elements, old, ids, last.ids, strict=False)
    return next(index for index, (a, b, c, d) in enumerate(pairs) if a is not b or c != d)
