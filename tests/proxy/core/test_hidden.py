"""Where hidden pairs stand in the lists that a client sends: always paired, in the order of the calls."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from proxy.core.hidden import Hidden, Late, Spoken, anchored, continued, hidden_id, restored
from proxy.core.model import Conversation, Element
from proxy.wire.chat import ChatFormat, read_message
from tests.support import builders
from tests.support.strict_lists import chat_fault


def element(message: Any) -> Element:
    return read_message(json.dumps(message).encode())


def conversation(messages: list[Any]) -> Conversation:
    return ChatFormat().decode(json.dumps({"model": "m", "messages": messages}).encode(), {})


def put_back(
    messages: list[Any], hidden: list[Hidden], known: dict[str, Any], folded: frozenset[str] = frozenset()
) -> Any:
    ids = [f"i{index}" for index in range(len(messages))]
    found = restored(conversation(messages), ids, hidden, {k: element(v) for k, v in known.items()}, folded)
    if found is None:
        return None
    extended, all_ids = found
    assert len(all_ids) == len(extended.elements) == len(extended.frame.gaps) + 1
    assert extended.hidden == frozenset(all_ids) - frozenset(ids)
    return [json.loads(each.raw) for each in extended.elements]


MIXED = builders.assistant("x", [builders.call("A"), builders.call("H"), builders.call("B")])
SEEN = builders.assistant("x", [builders.call("A"), builders.call("B")])
PAIR = Hidden("chat", "i1", own="own", late=(Late("r", ("A",)),))


@pytest.mark.parametrize("order", list(permutations("AB")))
def test_a_result_follows_those_of_the_calls_before_it(order: tuple[str, ...]) -> None:
    results = [builders.result(call, "of " + call) for call in order]
    known = {"own": MIXED, "r": builders.result("H", "hidden")}
    out = put_back([builders.user("u"), SEEN, *results, builders.user("next")], [PAIR], known)
    assert chat_fault(out) is None and out[1] == MIXED
    answered = [message["tool_call_id"] for message in out if message["role"] == "tool"]
    assert answered.index("H") == answered.index("A") + 1


def test_a_result_that_never_came_holds_nothing_up() -> None:
    out = put_back(
        [builders.user("u"), SEEN, builders.user("stop")], [PAIR], {"own": MIXED, "r": builders.result("H", "h")}
    )
    assert [message["role"] for message in out] == ["user", "assistant", "tool", "user"]


def test_rounds_before_a_reply_stand_in_front_of_it() -> None:
    known = {"a": builders.assistant(None, [builders.call("H")]), "r": builders.result("H", "h")}
    out = put_back([builders.user("u"), builders.assistant("done")], [Hidden("chat", "i1", before=("a", "r"))], known)
    assert [message["role"] for message in out] == ["user", "assistant", "tool", "assistant"]


def test_what_is_folded_unknown_or_of_another_form_stays_out() -> None:
    messages = [builders.user("u"), builders.assistant("done")]
    entry = Hidden("chat", "i1", before=("a",))
    assert put_back(messages, [entry], {"a": builders.user("x")}, frozenset({"i1"})) is None
    assert put_back(messages, [entry], {}) is None
    assert put_back(messages, [Hidden("responses", "i1", before=("a",))], {"a": builders.user("x")}) is None
    assert put_back(messages, [Hidden("chat", "gone", before=("a",))], {"a": builders.user("x")}) is None


def spoken(*ids: str, results: tuple[str, ...] = (), before: tuple[str, ...] = ()) -> Spoken:
    one = element(builders.user("x"))
    return Spoken(tuple(one for _ in ids), ids, tuple(one for _ in results), results, tuple(before for _ in results))


def test_anchors_in_chat_form() -> None:
    rounds = [spoken("a1", results=("r1",)), spoken("")]
    assert anchored("chat", rounds, ["x"], "u") == (Hidden("chat", "x", before=("a1", "r1")),)
    mixed = [spoken("own", results=("r1",), before=("A",))]
    assert anchored("chat", mixed, ["x"], "u") == (Hidden("chat", "x", own="own", late=(Late("r1", ("A",)),)),)
    assert anchored("chat", [spoken("a1", results=("r1",)), spoken()], [], "u") == (
        Hidden("chat", "u", after=("a1", "r1")),
    )
    assert anchored("chat", [spoken("")], ["x"], "u") == ()


def test_anchors_in_responses_form() -> None:
    rounds = [spoken("", "c1", results=("r1",)), spoken("", "c2", "", results=("r2",), before=("A",))]
    found = anchored("responses", rounds, ["rs", "m", "A"], "u")
    assert found == (
        Hidden("responses", "rs", after=("c1", "r1")),
        Hidden("responses", "m", after=("c2",)),
        Hidden("responses", "A", late=(Late("r2", ("A",)),)),
    )


def test_a_round_goes_on_from_the_list() -> None:
    more = continued(conversation([builders.user("u")]), [element(builders.assistant("x"))], ["h"])
    assert len(more.elements) == 2 and more.frame.gaps == (b",",) and more.hidden == {"h"}


def test_ids_of_hidden_items_are_their_own() -> None:
    assert hidden_id("c", "x", 1) == hidden_id("c", "x", 1) != hidden_id("c", "x", 2) != hidden_id("c", "y", 2)
