"""Steps, paths, probes and ids, also as the wire formats feed them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.identity import (
    KEPT_TEXT,
    Path,
    Step,
    decode_step,
    emitted,
    encode_step,
    hash_head,
    is_strong,
    item_id,
    item_ids,
    listed,
    probe,
    quoted_ids,
    steps_of,
)
from proxy.wire.chat import ChatFormat
from proxy.wire.responses import ResponsesFormat
from tests.support.talks import Desk, assistant, call, conversation, reasoning, result, system, user

ID = "call_7fK2pQ9xZ1aa"


@pytest.mark.parametrize(
    "anchor",
    [
        "call5b315ffabb4143e5a9aeb5de",
        "call7fK2pQ9xZ1aa",
        "tooluA1b2C3d4E5f6",
        "VvvODy9mT",
        "functioncall1234567890123456",
        "fc5383da36d0764ebf829f2fef",
    ],
)
def test_random_ids_are_evidence(anchor: str) -> None:
    assert is_strong(anchor)


@pytest.mark.parametrize(
    "anchor", ["call0", "0", "", "functionssearchfiles12", "calllookuppart1", "call00000001", "callabc12", "toolcall1"]
)
def test_counters_and_names_are_not(anchor: str) -> None:
    assert not is_strong(anchor)


def test_ids_spelled_out_in_a_text_are_found_once_each() -> None:
    text = f"Calling tools: [{{'id': '{ID}'}}] and {ID} again, not call_0 and not recall_it"
    assert quoted_ids(text) == ("call7fK2pQ9xZ1aa",)


def test_text_beside_calls_is_weak_in_both_shapes() -> None:
    one = steps_of([assistant("I look.", (ID, "look", "{}"))])
    two = steps_of([reasoning("hm"), assistant("I look."), reasoning("so"), call(ID)])
    assert Path(one).flat == Path(two).flat
    assert Path(steps_of([assistant("I look."), user("Fine.")])).flat.startswith(assistant("I look.").atoms[0].hash)


def test_a_step_survives_its_row() -> None:
    steps = emitted([reasoning("hm"), assistant("I look it up.", (ID, "look", '{"a":1}')), result(ID, "é" * 500)], "r")
    assert [decode_step(encode_step(step)) for step in steps] == steps
    assert steps[-1].response and steps[1].is_emitted and steps[1].made == ("call7fK2pQ9xZ1aa",)
    assert len(steps[2].text) == KEPT_TEXT and steps[2].size == 500
    assert len(encode_step(steps[1])) < 150


def test_a_broken_row_is_an_error_of_its_own() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_step(b"\x00nonsense")


@given(
    st.builds(
        Step,
        hash=st.binary(max_size=16),
        chain=st.binary(max_size=48),
        kind=st.sampled_from(["message", "tool_call", "opaque"]),
        role=st.text(max_size=9),
        made=st.lists(st.text(max_size=9), max_size=3).map(tuple),
        text=st.text(max_size=KEPT_TEXT),
        size=st.integers(0, 10**9),
        is_emitted=st.booleans(),
    )
)
def test_any_step_survives_its_row(step: Step) -> None:
    assert decode_step(encode_step(step)) == step


def test_item_ids_name_content_and_occurrence() -> None:
    again = user("Go on.")
    ids = item_ids("c", [system("S"), again, assistant("Yes."), again])
    assert len(set(ids)) == 4 and all(
        len(id) == 12 and set(id) <= set("abcdefghijklmnopqrstuvwxyz234567") for id in ids
    )
    assert ids[1] == item_id("c", again.hash, 0) and ids[3] == item_id("c", again.hash, 1)
    assert item_ids("c", [again], before=[again, again]) == [item_id("c", again.hash, 2)]
    assert item_ids("other", [again]) != item_ids("c", [again])


def test_a_path_grows_as_if_it_were_read_whole() -> None:
    elements = [
        user("Hello there"),
        assistant("I look.", (ID, "look", "{}")),
        result(ID, "x"),
        assistant("So it is now."),
    ]
    steps = emitted(elements, "resp_1")
    whole, grown = Path(steps), Path(steps[:2]).plus(steps[2:])
    for name in Path.__slots__:
        assert getattr(whole, name) == getattr(grown, name), name
    assert whole.end(2) == 32 and whole.end(0) == 0


def test_a_clock_leaves_the_stem_of_a_head_alone() -> None:
    one, two = hash_head("You help. It is 10:41."), hash_head("You help. It is 11:02.")
    assert one != two and one[:8] == two[:8]
    assert hash_head("You summarise.")[:8] != one[:8]


def test_the_head_is_no_part_of_the_body() -> None:
    asked = probe(conversation([system("S"), user("Hello"), system("late rule")]), "t")
    assert asked.head == 1 and len(asked.path) == 2 and asked.has_tools


CHAT, RESPONSES = ChatFormat(), ResponsesFormat()


def chat(messages: list[dict[str, Any]]) -> Any:
    return CHAT.decode(json.dumps({"model": "m", "messages": messages}).encode(), {})


TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "You mend tools."},
    {"role": "user", "content": "Which blade?"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": ID, "type": "function", "function": {"name": "look", "arguments": '{"b": 1, "a": 2}'}}],
    },
    {"role": "tool", "tool_call_id": ID, "content": "blade 14"},
]


def variant(position: int, /, **changes: Any) -> list[dict[str, Any]]:
    return [*TALK[:position], {**TALK[position], **changes}, *TALK[position + 1 :]]


PARTS = [{"type": "text", "text": "Which blade?", "cache_control": {"type": "ephemeral"}}]
VARIANTS = {
    "text_as_parts_with_a_cache_marker": variant(1, content=PARTS),
    "positional_index_fields": variant(1, index=0, id="msg_1"),
    "text_nulled_beside_the_call": variant(2, content=None),
    "reasoning_added": variant(2, reasoning_content="hm"),
    "arguments_reencoded": variant(
        2, tool_calls=[{"id": ID, "type": "function", "function": {"name": "look", "arguments": '{"a":2,"b":1}'}}]
    ),
    "result_as_parts": variant(3, content=[{"type": "text", "text": "blade 14"}]),
    "result_with_a_name": variant(3, name="look"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_another_shape_of_the_same_content_continues_and_stores_nothing_twice(name: str) -> None:
    desk = Desk()
    first = desk.ask(chat(TALK), [assistant("Blade 14 fits.")])
    stored = len(desk.items)
    answer = {"role": "assistant", "content": "Blade 14 fits."}
    second = desk.ask(chat([*VARIANTS[name], answer, {"role": "user", "content": "Thanks!"}]))
    assert second.verdict == "continue" and second.branch == first.branch
    assert second.lcp == 4 and not second.revised and not second.pruned
    assert len(desk.items) == stored + 1


def test_the_same_talk_through_responses_continues() -> None:
    desk = Desk()
    first = desk.ask(chat(TALK), [assistant("Blade 14 fits.")])
    body = {
        "model": "m",
        "instructions": "You mend tools.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Which blade?"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": ID, "name": "look", "arguments": '{"a":2,"b":1}'},
            {"type": "function_call_output", "call_id": ID, "output": "blade 14"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Blade 14 fits."}]},
            {"role": "user", "content": "Thanks!"},
        ],
    }
    moved = desk.ask(RESPONSES.decode(json.dumps(body).encode(), {}))
    assert moved.branch == first.branch and moved.verdict == "continue" and not moved.pruned and not moved.revised


def test_a_text_that_was_stored_alone_is_weak_where_a_call_follows_and_strong_again_where_none_does() -> None:
    """Steps are stored one by one, with what they were when they came; a list says what they are in it."""
    says, calls = assistant("I keep watch."), call(ID)
    alone, beside = steps_of([says]), steps_of([says, calls])
    stored = [decode_step(encode_step(step)) for step in (*alone, *steps_of([calls]))]
    assert [step.chain for step in listed(stored)] == [step.chain for step in beside] and not beside[0].chain
    assert [step.chain for step in listed(stored[:1])] == [alone[0].chain] and alone[0].chain
    assert listed([decode_step(encode_step(beside[0]))])[0].chain == alone[0].chain
