"""Builds the question that a policy answers: candidates with their costs, the budget, the pressure. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from policies.model import NOT_OFFERED, Budget, Candidate, Form, Kind, Pressure, Prices, Situation
from proxy.core.model import Element

SYSTEM_ROLES = frozenset({"system", "developer"})
MIN_STUB_GAIN = 1  # tokens; a stub that saves nothing is not offered


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one request item beyond its element: costs, the call it answers, its stub.

    `stub_texts` is parallel to `Element.texts`; empty when the item has no stub that is shorter.
    """

    id: str
    tokens: int
    stub_texts: tuple[str | None, ...] = ()
    stub_tokens: int = NOT_OFFERED
    tool: str = ""
    argument: str = ""
    size_chars: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What a branch brings to the question from its past."""

    held: Mapping[str, Form]
    seen: Collection[str]
    memory: Mapping[str, float]
    is_cold: bool = False


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
        stub = NOT_OFFERED if is_rule_file else fact.stub_tokens
        candidates.append(
            Candidate(
                id=fact.id,
                index=index,
                group=groups[index],
                call=calls[index],
                kind=kind,
                costs=(0, 0, stub, NOT_OFFERED, NOT_OFFERED, fact.tokens),
                is_pinned=is_pinned,
                is_seen=fact.id in seen,
                is_failed=element.is_failed,
                tool=fact.tool,
                size_chars=fact.size_chars,
                text=element.text,
                source=fact.argument,
            )
        )
    last = elements[-1] if elements else None
    return Situation(
        candidates=tuple(candidates),
        budget=budget,
        prices=prices,
        held=standing.held,
        digest_tokens=digest_tokens,
        pressure=pressure,
        is_cold=standing.is_cold,
        is_new_turn=last is not None and kind_of(last) == "user",
        memory=standing.memory,
    )


def kind_of(element: Element) -> Kind:
    """The policy's word for an element."""
    if element.kind == "tool_result":
        return "tool_result"
    if element.kind == "reasoning":
        return "reasoning"
    if element.role in SYSTEM_ROLES:
        return "system"
    if element.role == "user" and element.kind in ("message", "summary"):
        return "user"
    if element.role == "assistant" or element.kind == "tool_call":
        return "assistant"
    return "opaque"


def matches_any(argument: str, patterns: Sequence[str]) -> bool:
    """Does a call's key argument name a file that one of `patterns` matches?"""
    if not argument:
        return False
    words = [word.strip("'\"`,;:()[]{}") for word in argument.split()] or [argument]
    names = {word.replace("\\", "/").rsplit("/", 1)[-1] for word in words} | set(words)
    return any(fnmatch(name, pattern) for name in names for pattern in patterns)
