"""What belongs to the work of now."""

from __future__ import annotations

from dataclasses import replace

from proxy.core.recent import answered, of_this_turn
from proxy.wire.chat import ChatFormat
from tests.support import builders

LIST = [builders.user("a"), *builders.steps(1), builders.user("b"), *builders.steps(1, start=1), builders.user("c")]
IDS = [f"i{number}" for number in range(len(LIST))]


def test_what_a_model_has_spoken_behind_is_answered() -> None:
    conversation = ChatFormat().decode(builders.body_bytes(builders.request(LIST)), {})
    assert answered(conversation, IDS) == set(IDS[:4])


def test_only_what_was_expanded_since_the_user_spoke_is_of_this_turn() -> None:
    conversation = ChatFormat().decode(builders.body_bytes(builders.request(LIST[:-1])), {})
    assert of_this_turn(conversation, IDS) == frozenset()
    hidden = replace(conversation, hidden=frozenset({"i1", "i5"}))
    assert of_this_turn(hidden, IDS) == {"i5"}
