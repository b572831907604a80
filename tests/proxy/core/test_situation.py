"""The question a policy is asked: kinds, pins, what may be masked, and what the model has seen."""

from __future__ import annotations

import pytest

from policies.model import NOT_OFFERED, Budget, Form, Prices, Situation
from proxy.core.model import Element
from proxy.core.situation import Facts, Standing, build, matches_any
from tests.support import talks

ELEMENTS = [
    talks.system("rules"),
    talks.user("first"),
    talks.assistant(None, ("c1", "read", "{}")),
    talks.result("c1", "text"),
    talks.user("second"),
]


def ask(elements: list[Element], *, argument: str = "", never_mask: tuple[str, ...] = ()) -> Situation:
    facts = [
        Facts(f"i{n}", 100, stub_tokens=10, argument=argument if e.kind == "tool_result" else "")
        if e.kind == "tool_result"
        else Facts(f"i{n}", 5)
        for n, e in enumerate(elements)
    ]
    return build(
        elements,
        facts,
        list(range(len(elements))),
        [0] * len(elements),
        Standing({"i3": Form.STUB}, {"i0", "i3"}, {"k": 1.0}),
        budget=Budget(1000),
        prices=Prices(),
        pressure=None,
        digest_tokens=7,
        never_mask=never_mask,
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
