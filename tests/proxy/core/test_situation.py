"""The question a policy is asked: kinds, pins, what may be masked, and what the model has seen."""

from __future__ import annotations

import pytest

from policies.model import NOT_OFFERED, Budget, Form, Prices, Situation
from proxy.core.listing import listing_of
from proxy.core.model import Element
from proxy.core.situation import Facts, Held, Standing, build, matches_any, read_items
from tests.support import talks

ELEMENTS = [
    talks.system("rules"),
    talks.user("first"),
    talks.assistant(None, ("c1", "read", "{}")),
    talks.result("c1", "text"),
    talks.user("second"),
]

STANDING = Standing({"i3": Form.STUB}, {"i0", "i3"}, {"k": 1.0})


def ask(elements: list[Element], *, argument: str = "", never_mask: tuple[str, ...] = ()) -> Situation:
    facts = facts_of(elements, argument)
    items = read_items(listing_of(elements, 1), facts, STANDING, never_mask=never_mask)
    return build(items, STANDING, budget=Budget(1000), prices=Prices(), pressure=None, digest_tokens=7)


def facts_of(elements: list[Element], argument: str = "") -> tuple[Facts, ...]:
    return tuple(
        Facts(f"i{n}", 100, stub_tokens=10, argument=argument if e.kind == "tool_result" else "")
        if e.kind == "tool_result"
        else Facts(f"i{n}", 5)
        for n, e in enumerate(elements)
    )


def test_pins_are_instructions_and_the_first_user_message() -> None:
    situation = ask(ELEMENTS)
    assert [c.is_pinned for c in situation.candidates] == [True, True, False, False, False]
    assert [c.kind for c in situation.candidates] == ["system", "user", "assistant", "tool_result", "user"]
    assert [c.is_seen for c in situation.candidates] == [True, False, False, True, False]
    assert situation.is_new_turn and not ask(ELEMENTS[:4]).is_new_turn
    assert situation.memory == {"k": 1.0}


def test_only_results_offer_a_stub_and_rule_files_do_not() -> None:
    assert ask(ELEMENTS).candidates[3].costs == (0, 0, 10, NOT_OFFERED, NOT_OFFERED, 100)
    assert ask(ELEMENTS).candidates[1].costs[Form.STUB] == NOT_OFFERED
    guarded = ask(ELEMENTS, argument="cat docs/AGENTS.md", never_mask=("AGENTS.md",))
    assert guarded.candidates[3].costs[Form.STUB] == NOT_OFFERED


@pytest.mark.parametrize(
    ("argument", "is_match"),
    [
        ("docs/AGENTS.md", True),
        ("C:\\x\\AGENTS.md", True),
        ("cat 'AGENTS.md'; ls", True),
        ("AGENTS.md.bak", False),
        ("", False),
        ("a b", False),
    ],
)
def test_file_names_are_found_in_arguments(argument: str, is_match: bool) -> None:
    assert matches_any(argument, ("AGENTS.md",)) is is_match


def test_items_go_on_from_those_of_the_shorter_list() -> None:
    """Whatever became known meanwhile: seen, masked, stale, or joined to another group."""
    late = talks.result("c1", "late")
    longer = [*ELEMENTS, talks.assistant("noted"), late]
    first = read_items(listing_of(ELEMENTS, 1), facts_of(ELEMENTS), STANDING)
    facts = (*first.facts, *facts_of(longer)[len(ELEMENTS) :])
    later = Standing({}, {"i0", "i1", "i2", "i3"}, {}, masks={"i3": Held(Form.STUB, 8)}, stale=frozenset({"i2"}))
    for length in (len(ELEMENTS), len(ELEMENTS) + 1, len(longer)):
        listing = listing_of(longer[:length], 1)
        grown = read_items(listing, facts[:length], later, known=first)
        assert grown.candidates == read_items(listing, facts[:length], later).candidates
        assert grown.candidates[4] is first.candidates[4] or length == len(longer)
    assert read_items(first.listing, first.facts, STANDING, known=first).candidates == first.candidates
