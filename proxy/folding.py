"""Makes the fold that a policy asks for: one digest item over whole groups, in a bounded number of tokens. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import takewhile

from policies.draft import DIGEST_LIMIT, digest_allowance
from proxy.core.digest import DigestCall, DigestItem, Notes, compose, ids_in, note, told
from proxy.core.grouping import groups, key_argument
from proxy.core.identity import item_id
from proxy.core.kinds import kind_of
from proxy.core.model import Element
from proxy.core.offers import KeepRenderer
from proxy.core.segments import Passage, Segment, segments
from proxy.core.situation import Facts
from proxy.core.window import Compaction, Fold
from proxy.tokenizer import Tokenizer

CHARS_PER_TOKEN = 4
"""Where the fitting of a digest starts; dense text gets fewer characters."""
ROOM_PER_DIGEST = 12
"""A digest may always take this part of the window's room."""
PART_CHARS = 1_500
"""The record of one segment, for whoever expands a fold."""
SEALED_CHARS_PER_TOKEN = 8
"""A guess at what a sealed element takes: nobody but the provider can count it. Its bill corrects the whole."""
LEAST_SEALED = 100
_NOTES_KEPT = 4_000


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
    sealed_for: str = ""  # the model, where the list's format takes what the provider itself has compacted
    groups: Sequence[int] = field(init=False)  # by element; read once for all parts

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", groups(self.elements))


@dataclass(frozen=True, slots=True)
class Part:
    """What a fold covers of one segment.

    `is_settled`: the fold goes on behind it, so that most likely no more of it will be covered later.
    `segment` names the segment itself, whatever is covered of it; "" while it may still grow.
    """

    item: str  # id of the record that stands for exactly these items
    ids: tuple[str, ...]
    span: range
    is_settled: bool
    segment: str = ""


@dataclass(frozen=True, slots=True)
class Folded:
    """A fold just made, with what is needed to record it, or to make it again with better summaries."""

    fold: Fold
    parts: tuple[Part, ...]
    source: FoldSource
    told: int = 0  # parts told in a model's words
    records: tuple[str, ...] = ()  # of each part, what the rules say of it alone


class FoldMaker:
    """Stateless but for caches: the same originals give the same text."""

    def __init__(
        self, tokenizer: Tokenizer, digest_chars: int = 8000, *, render_keep: KeepRenderer | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._digest_chars = digest_chars
        self._render_keep = render_keep
        self._notes: OrderedDict[tuple[str, tuple[str, ...]], Notes] = OrderedDict()

    def make(self, source: FoldSource, old: Fold | None, covers: tuple[str, ...], reason: str) -> Folded | None:
        """The fold that covers those items; the old one while it covers the same."""
        if not covers:
            return None
        is_same = old is not None and frozenset(old.covers) == frozenset(covers)
        if old is not None and is_same and source.keeps in ({}, old.keeps):
            return Folded(old, (), source)
        parts = tuple(parts_of(source, covers))
        return self._folded(source, parts, covers, reason, {})

    def retell(self, folded: Folded, summaries: Mapping[str, str]) -> Folded:
        """The same fold; `summaries` (texts by `Part.segment`) are told in place of what the rules say.

        One under the name of a `beginning` is a sealed element, which stands in front of the rest.
        """
        made = self._folded(folded.source, folded.parts, folded.fold.covers, folded.fold.reason, summaries)
        for start in beginnings(folded.source, folded.parts):
            if raw := summaries.get(start.segment):
                return replace(made, fold=self._sealed(made, start, raw.encode()), told=len(start.parts))
        return made

    def _folded(
        self,
        source: FoldSource,
        parts: tuple[Part, ...],
        covers: tuple[str, ...],
        reason: str,
        summaries: Mapping[str, str],
    ) -> Folded:
        own = [self._noted(source, part) for part in parts]
        notes = [*own]
        tokens = _allowance(source, notes)
        by_model = 0
        for index, part in enumerate(parts):
            if part.segment and (summary := summaries.get(part.segment)):
                notes[index] = told(notes[index], summary, id=part.item)
                by_model += 1
        later = ids_in(_text_after(source, frozenset(covers)))
        name = self._name(source, covers, self._fit(notes, later, tokens, ""))
        text = "\n".join([self._fit(notes, later, tokens, name), *self._kept(source)])
        records = tuple([
            compose([noted], max_chars=PART_CHARS, own_id=part.item) if part.is_settled else ""
            for part, noted in zip(parts, own, strict=True)
        ])  # fmt: skip
        return Folded(Fold(covers, name, text, reason, dict(source.keeps)), parts, source, by_model, records)

    def _sealed(self, made: Folded, start: Beginning, raw: bytes) -> Fold:
        """The fold with a sealed element for its beginning, of which the digest then gives the user's words alone."""
        source, fold = made.source, made.fold
        notes = [self._noted(source, part) for part in made.parts]
        said = [_words(noted) for noted in notes[: len(start.parts)]]
        later = ids_in(_text_after(source, frozenset(fold.covers)))
        digest = self._fit([*said, *notes[len(start.parts) :]], later, _allowance(source, notes), fold.item)
        text = "\n".join([digest, *self._kept(source)])
        tokens = max(LEAST_SEALED, len(raw) // SEALED_CHARS_PER_TOKEN)
        item = self._name(source, fold.covers, fold.text + raw.decode())
        own = Compaction(start.item, raw, tokens, source.sealed_for, text.replace(fold.item, item))
        return Fold(fold.covers, item, fold.text.replace(fold.item, item), fold.reason, fold.keeps, own)

    def _name(self, source: FoldSource, covers: Iterable[str], text: str) -> str:
        """The id of a digest item: by what it says and by what it covers."""
        content = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
        for item in (*covers, *(f"{item}{keep}" for item, keep in source.keeps.items())):
            content.update(b"\0" + item.encode())
        return item_id(source.conversation, content.digest(), 0)

    def _noted(self, source: FoldSource, part: Part) -> Notes:
        key = (source.conversation, part.ids)
        known = self._notes.get(key)
        if known is None:
            known = self._notes[key] = note(digest_items(source, part.span, part.ids))
            while len(self._notes) > _NOTES_KEPT:
                self._notes.popitem(last=False)
        return known

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

    def _fit(self, notes: Sequence[Notes], later: frozenset[str], tokens: int, own_id: str) -> str:
        """A digest of at most so many tokens, unless its opening line alone is longer."""
        chars = min(self._digest_chars, CHARS_PER_TOKEN * tokens)
        while True:
            text = compose(notes, max_chars=chars, later=later, own_id=own_id)
            count = self._tokenizer.count(text)
            if count <= tokens or chars < tokens:
                return text
            chars = chars * tokens // (count + count // 16)


def parts_of(source: FoldSource, covers: Collection[str]) -> list[Part]:
    """The covered items by segment, in order."""
    covered = frozenset(covers)
    ids = [fact.id for fact in source.facts]
    own = _foldable(source)
    found: list[Part] = []
    last = max((i for i, item in enumerate(ids) if item in covered), default=-1)
    for segment in history_segments(source):
        chosen = tuple(ids[i] for i in segment.span if ids[i] in covered)
        if not chosen:
            continue
        found.append(
            Part(
                item=item_id(source.conversation, _hash(chosen), 0),
                ids=chosen,
                span=segment.span,
                is_settled=segment.is_closed and last > segment.span[-1],
                segment=_hash(ids[i] for i in segment.span if own[i]).hex() if segment.is_closed else "",
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first parts of a fold, all of closed segments: what the provider may compact at one stroke."""

    segment: str  # names them all
    item: str  # id of what stands for them
    parts: tuple[Part, ...]

    @property
    def span(self) -> range:
        return range(self.parts[0].span.start, self.parts[-1].span.stop)


def beginnings(source: FoldSource, parts: Sequence[Part]) -> list[Beginning]:
    """Every beginning of a fold that ends with a closed segment, the longest first. None without `sealed_for`."""
    closed = list(takewhile(lambda part: part.segment, parts)) if source.sealed_for else []
    found = []
    for count in range(len(closed), 0, -1):
        name = _hash([source.sealed_for, *(part.segment for part in closed[:count])])
        found.append(Beginning(name.hex(), item_id(source.conversation, name, 0), tuple(closed[:count])))
    return found


def _allowance(source: FoldSource, notes: Sequence[Notes]) -> int:
    """Tokens of a digest: what the policy reckoned with; more only where it is a small part of the window."""
    calls = sum(line.kind == "call" for noted in notes for line in noted.lines)
    return max(digest_allowance(calls), min(DIGEST_LIMIT, source.room // ROOM_PER_DIGEST))


def _words(noted: Notes) -> Notes:
    """Of notes, the user's own words and rules."""
    own = tuple(line for line in noted.lines if line.kind == "user")
    return Notes(noted.count, own, noted.rules, {}, {}, {})


def history_segments(source: FoldSource) -> list[Segment]:
    """The segments of the whole request, whatever is covered of them."""
    numbers = source.groups
    return segments(
        [
            Passage(numbers[i], kind_of(element) == "user", len(element.calls), len(element.text), fact.ends_subtask)
            for i, (element, fact) in enumerate(zip(source.elements, source.facts, strict=True))
        ]
    )


def digest_items(source: FoldSource, span: range, ids: Collection[str]) -> list[DigestItem]:
    """The named items of a span as the digest reads them."""
    numbers, wanted = source.groups, frozenset(ids)
    return [_digest_item(source.elements[i], source.facts[i], numbers[i]) for i in span if source.facts[i].id in wanted]


def segment_items(source: FoldSource, span: range) -> list[DigestItem]:
    """All items of a segment that may ever be folded: what a summary of it is made from."""
    own = _foldable(source)
    return digest_items(source, span, [source.facts[i].id for i in span if own[i]])


def segment_raws(source: FoldSource, span: range) -> tuple[bytes, ...]:
    """The same items as they came."""
    own = _foldable(source)
    return tuple(source.elements[i].raw for i in span if own[i])


def _foldable(source: FoldSource) -> list[bool]:
    """Which items are not pinned for good: instructions and the first user message never leave."""
    kinds = [kind_of(element) for element in source.elements]
    first_user = next((i for i, kind in enumerate(kinds) if kind == "user"), -1)
    return [kind != "system" and i != first_user for i, kind in enumerate(kinds)]


def _hash(ids: Iterable[str]) -> bytes:
    return blake2b("\0".join(ids).encode(), digest_size=16).digest()


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
        steps=fact.steps,
    )


def _text_after(source: FoldSource, covers: frozenset[str]) -> str:
    pairs = zip(source.elements, source.facts, strict=True)
    return "\n".join(element.text for element, fact in pairs if fact.id not in covers and element.text)
