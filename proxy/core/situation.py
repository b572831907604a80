"""Builds the question that a policy answers: candidates with their costs, the budget, the pressure. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from operator import attrgetter

from policies.model import NOT_OFFERED, Budget, Candidate, ExcerptKind, Form, Pressure, Prices, Situation, Survey
from policies.survey import survey
from proxy.core.listing import Listing

_ID = attrgetter("id")
MIN_STUB_GAIN = 1  # tokens; a stub that saves nothing is not offered


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one request item beyond its element: costs, the call it answers, its shorter forms.

    `stub_texts` and `excerpt_texts` are parallel to `Element.texts`; empty when there is no such form that is shorter.
    """

    id: str
    tokens: int
    stub_texts: tuple[str | None, ...] = ()
    stub_tokens: int = NOT_OFFERED
    tool: str = ""
    argument: str = ""
    size_chars: int = 0
    excerpt_texts: tuple[str | None, ...] = ()
    excerpt_tokens: int = NOT_OFFERED
    excerpt: ExcerptKind = ""
    bases: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    ends_subtask: bool = False
    steps: tuple[str, ...] = ()  # of the subtask that ended with it


@dataclass(frozen=True, slots=True)
class Held:
    """A reduced item of the standing plan: what its own texts there cost, and what an excerpt refers to."""

    form: Form
    tokens: int
    excerpt: ExcerptKind = ""
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """What a branch brings to the question from its past. `masks` are the items reduced in place."""

    held: Mapping[str, Form]
    seen: Collection[str]
    memory: Mapping[str, float]
    is_cold: bool = False
    free_from: int | None = None
    masks: Mapping[str, Held] = field(default_factory=dict)
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    stale: Collection[str] = ()
    pinned: Collection[str] = frozenset()  # beyond what is always in full
    importance: Mapping[str, float] = field(default_factory=dict)
    query: str = ""  # what is asked about, as literal words


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A list's items as a policy sees them, with what they were made from: the next list's are made from these."""

    listing: Listing
    facts: tuple[Facts, ...]
    seen: tuple[bool, ...]
    masks: Mapping[str, Held]
    stale: Collection[str]
    candidates: tuple[Candidate, ...]
    survey: Survey
    pinned: Collection[str] = frozenset()
    importance: Mapping[str, float] = field(default_factory=dict)


def read_items(
    listing: Listing,
    facts: tuple[Facts, ...],
    standing: Standing,
    *,
    never_mask: Sequence[str] = (),
    known: Items | None = None,
) -> Items:
    """The items of a list; those that are in `known` as they are now are taken from there."""
    seen = tuple(map(standing.seen.__contains__, map(_ID, facts)))
    candidates: list[Candidate] = []
    changed: Collection[int] = ()
    if known is not None and _goes_on(listing, facts, known):
        candidates = list(known.candidates)
        changed = _changed(facts, seen, standing, known)
    for index in (*changed, *range(len(candidates), len(facts))):
        one = _candidate(listing, facts[index], index, standing, never_mask, is_seen=seen[index])
        if index < len(candidates):
            candidates[index] = one
        else:
            candidates.append(one)
    made = tuple(candidates)
    return Items(
        listing,
        facts,
        seen,
        standing.masks,
        standing.stale,
        made,
        survey(made, standing.held, known.survey if known is not None else None),
        standing.pinned,
        dict(standing.importance),
    )


def build(
    items: Items,
    standing: Standing,
    *,
    budget: Budget,
    prices: Prices,
    pressure: Pressure | None,
    digest_tokens: int,
) -> Situation:
    """The situation of a request."""
    kinds = items.listing.kinds
    return Situation(
        candidates=items.candidates,
        budget=budget,
        prices=prices,
        held=standing.held,
        kept=standing.kept,
        digest_tokens=digest_tokens,
        pressure=pressure,
        is_cold=standing.is_cold,
        free_from=standing.free_from,
        is_new_turn=bool(kinds) and kinds[-1] == "user",
        query=standing.query,
        memory=standing.memory,
        survey=items.survey,
    )


def _goes_on(listing: Listing, facts: tuple[Facts, ...], known: Items) -> bool:
    """Does the list begin with the known one, element for element and group for group?"""
    count = len(known.facts)
    old = known.listing
    return listing is old or (
        facts[:count] == known.facts
        and listing.elements[:count] == old.elements
        and listing.groups[:count] == old.groups
        and (listing.first_user == old.first_user or old.first_user < 0)
    )


def _changed(facts: tuple[Facts, ...], seen: tuple[bool, ...], standing: Standing, known: Items) -> list[int]:
    """Indices of known items of which more is known now."""
    count = len(known.facts)
    indices: list[int] = []
    if seen[:count] != known.seen:
        indices = [index for index, was_seen in enumerate(known.seen) if seen[index] is not was_seen]
    ids: set[str] = set()
    if standing.masks is not known.masks:
        both = standing.masks.keys() | known.masks.keys()
        ids.update(item for item in both if standing.masks.get(item) != known.masks.get(item))
    if standing.stale is not known.stale:
        ids.update(set(standing.stale).symmetric_difference(known.stale))
    if standing.pinned != known.pinned:
        ids.update(set(standing.pinned).symmetric_difference(known.pinned))
    if standing.importance != known.importance:
        both = standing.importance.keys() | known.importance.keys()
        ids.update(item for item in both if standing.importance.get(item) != known.importance.get(item))
    if ids:
        indices += [index for index, fact in enumerate(known.facts) if fact.id in ids]
    return indices


def _candidate(
    listing: Listing, fact: Facts, index: int, standing: Standing, never_mask: Sequence[str], *, is_seen: bool
) -> Candidate:
    element, kind = listing.elements[index], listing.kinds[index]
    is_rule_file = bool(never_mask) and matches_any(fact.argument, never_mask)
    held = standing.masks.get(fact.id)
    excerpt, bases = fact.excerpt, fact.bases
    if held is not None and held.form is Form.EXCERPT:
        excerpt, bases = held.excerpt, held.bases
    return Candidate(
        id=fact.id,
        index=index,
        group=listing.groups[index],
        call=listing.calls[index],
        kind=kind,
        costs=_costs(fact, held, is_rule_file=is_rule_file),
        is_pinned=kind == "system" or index == listing.first_user or fact.id in standing.pinned,
        is_seen=is_seen,
        is_failed=element.is_failed,
        tool=fact.tool,
        size_chars=fact.size_chars,
        text=element.text,
        source=fact.argument,
        excerpt=excerpt,
        bases=bases,
        is_stale=fact.id in standing.stale,
        importance=standing.importance.get(fact.id, 0.0),
        cites=fact.cites,
    )


def _costs(fact: Facts, held: Held | None, *, is_rule_file: bool) -> tuple[int, int, int, int, int, int]:
    """Tokens by form. What the plan has made of an item goes on at the price of the text that is in the plan."""
    costs = [0, 0, fact.stub_tokens, fact.excerpt_tokens, NOT_OFFERED, fact.tokens]
    if is_rule_file:
        costs[Form.STUB] = costs[Form.EXCERPT] = NOT_OFFERED
    elif held is not None:
        costs[held.form] = held.tokens
    absent, folded, stub, excerpt, summary, full = costs
    return absent, folded, stub, excerpt, summary, full


def matches_any(argument: str, patterns: Sequence[str]) -> bool:
    """Does a call's key argument name a file that one of `patterns` matches?"""
    if not argument:
        return False
    words = [word.strip("'\"`,;:()[]{}") for word in argument.split()] or [argument]
    names = {word.replace("\\", "/").rsplit("/", 1)[-1] for word in words} | set(words)
    return any(fnmatch(name, pattern) for name in names for pattern in patterns)
