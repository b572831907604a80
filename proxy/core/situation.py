"""Builds the question that a policy answers: candidates with their costs, the budget, the pressure. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from policies.model import NOT_OFFERED, Budget, Candidate, ExcerptKind, Form, Pressure, Prices, Situation
from proxy.core.kinds import kind_of
from proxy.core.model import Element

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
    masks: Mapping[str, Held] = field(default_factory=dict)
    kept: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    stale: Collection[str] = ()


def build(
    elements: Sequence[Element],
    facts: Sequence[Facts],
    groups: Sequence[int],
    calls: Sequence[int],
    standing: Standing,
    *,
    budget: Budget,
    prices: Prices,
    pressure: Pressure | None,
    digest_tokens: int,
    never_mask: Sequence[str] = (),
) -> Situation:
    """The situation of a request. `groups` and `calls` are parallel to `elements`, as `facts` is."""
    first_user = next((i for i, e in enumerate(elements) if kind_of(e) == "user"), -1)
    candidates: list[Candidate] = []
    seen = standing.seen
    for index, (element, fact) in enumerate(zip(elements, facts, strict=True)):
        kind = kind_of(element)
        is_pinned = kind == "system" or index == first_user
        is_rule_file = bool(never_mask) and matches_any(fact.argument, never_mask)
        held = standing.masks.get(fact.id)
        excerpt, bases = fact.excerpt, fact.bases
        if held is not None and held.form is Form.EXCERPT:
            excerpt, bases = held.excerpt, held.bases
        candidates.append(
            Candidate(
                id=fact.id,
                index=index,
                group=groups[index],
                call=calls[index],
                kind=kind,
                costs=_costs(fact, held, is_rule_file=is_rule_file),
                is_pinned=is_pinned,
                is_seen=fact.id in seen,
                is_failed=element.is_failed,
                tool=fact.tool,
                size_chars=fact.size_chars,
                text=element.text,
                source=fact.argument,
                excerpt=excerpt,
                bases=bases,
                is_stale=fact.id in standing.stale,
                cites=fact.cites,
            )
        )
    last = elements[-1] if elements else None
    return Situation(
        candidates=tuple(candidates),
        budget=budget,
        prices=prices,
        held=standing.held,
        kept=standing.kept,
        digest_tokens=digest_tokens,
        pressure=pressure,
        is_cold=standing.is_cold,
        is_new_turn=last is not None and kind_of(last) == "user",
        memory=standing.memory,
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
