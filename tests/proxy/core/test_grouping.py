"""Groups, pairing by position, call ordinals and key arguments."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.grouping import call_ordinals, groups, key_argument, pair_results
from proxy.core.model import Atom, Call, Element


def user(text: str = "go on") -> Element:
    return Element(raw=text.encode(), kind="message", role="user", text=text, atoms=())


def assistant(*ids: str, text: str = "", arguments: str = "{}") -> Element:
    calls = tuple(Call(id=call_id, name="shell", arguments=arguments) for call_id in ids)
    return Element(raw=b"a", kind="message", role="assistant", text=text, atoms=(), calls=calls)


def result(answers: str, text: str = "out") -> Element:
    return Element(raw=b"r", kind="tool_result", role="tool", text=text, atoms=(), texts=(text,), answers=answers)


def reasoning() -> Element:
    return Element(raw=b"t", kind="reasoning", role="assistant", text="", atoms=())


def function_call(call_id: str) -> Element:
    return Element(
        raw=b"f", kind="tool_call", role="assistant", text="", atoms=(), calls=(Call(call_id, "shell", "{}"),)
    )


def output(call_id: str) -> Element:
    return Element(raw=b"o", kind="tool_result", role="tool", text="out", atoms=(), texts=("out",), answers=call_id)


def opaque(raw: bytes) -> Element:
    return Element(raw=raw, kind="opaque", role="", text="", atoms=())


def test_chat_call_and_its_results_are_one_group() -> None:
    elements = [user(), assistant("a", "b"), result("b"), result("a"), assistant(), user()]
    assert groups(elements) == [0, 1, 1, 1, 2, 3]


def test_every_turn_of_a_long_history_is_its_own_group() -> None:
    elements = [user()]
    for turn in range(30):
        elements += [assistant(f"c{turn}"), result(f"c{turn}")]
    assert groups(elements) == [0] + [1 + turn // 2 for turn in range(60)]


def test_repeated_call_ids_pair_with_the_nearest_call_before() -> None:
    elements = [
        user(),
        assistant("shell:0", arguments='{"command": "first"}'),
        result("shell:0"),
        assistant("shell:0", arguments='{"command": "second"}'),
        result("shell:0"),
        assistant("shell:0", arguments='{"command": "third"}'),
        result("shell:0"),
    ]
    sites = pair_results(elements)
    assert {index: (site.index, site.key_argument) for index, site in sites.items()} == {
        2: (1, "first"),
        4: (3, "second"),
        6: (5, "third"),
    }
    assert groups(elements) == [0, 1, 1, 2, 2, 3, 3]


def test_two_calls_under_one_id_are_answered_in_order() -> None:
    first, second = Call("x", "shell", '{"cmd": "one"}'), Call("x", "shell", '{"cmd": "two"}')
    both = Element(raw=b"a", kind="message", role="assistant", text="", atoms=(), calls=(first, second))
    sites = pair_results([both, result("x"), result("x"), result("x")])
    assert [sites[index].key_argument for index in (1, 2, 3)] == ["one", "two", "two"]


def test_answers_without_an_id_pair_by_order() -> None:
    elements = [function_call("a"), function_call("b"), output(""), output("")]
    sites = pair_results(elements)
    assert [sites[2].call.id, sites[3].call.id] == ["a", "b"]


def test_half_open_call_stays_with_what_follows() -> None:
    assert groups([user(), assistant("c1"), user(), assistant(), user()]) == [0, 1, 1, 2, 3]


def test_open_call_at_the_end_stands_alone() -> None:
    assert groups([user(), assistant("c1")]) == [0, 1]


def test_orphan_result_does_not_crash_and_stands_alone_after_a_user() -> None:
    elements = [user(), result("nobody"), user()]
    assert pair_results(elements) == {}
    assert groups(elements) == [0, 1, 2]


def test_reasoning_travels_with_its_response_and_outputs() -> None:
    elements = [user()]
    for turn in range(5):
        elements += [reasoning(), function_call(f"c{turn}"), output(f"c{turn}")]
    assert groups(elements) == [0] + [1 + turn // 3 for turn in range(15)]


def test_parallel_function_calls_and_their_outputs_are_one_group() -> None:
    elements = [user(), reasoning(), function_call("a"), function_call("b"), output("a"), output("b"), user()]
    assert groups(elements) == [0, 1, 1, 1, 1, 1, 2]


def test_reasoning_before_a_plain_message_travels_with_it() -> None:
    assert groups([user(), reasoning(), assistant(), user()]) == [0, 1, 1, 2]


def test_unknown_elements_that_name_one_id_stay_together() -> None:
    elements = [
        user(),
        opaque(b'{"type":"widget","id":"wg_12345"}'),
        assistant(),
        opaque(b'{"type":"widget_patch","for":"wg_12345"}'),
        user(),
    ]
    numbers = groups(elements)
    assert numbers[1] == numbers[2] == numbers[3]
    assert numbers[4] > numbers[3]


def test_a_message_with_an_unknown_block_is_linked_too() -> None:
    block = Element(
        raw=b'{"role":"user","content":[{"type":"widget","id":"wg_12345"}]}',
        kind="message",
        role="user",
        text="",
        atoms=(Atom(kind="other", hash=b"x"),),
    )
    numbers = groups([block, assistant(), opaque(b'{"type":"patch","ref":"wg_12345"}'), user()])
    assert numbers == [0, 0, 0, 1]


def test_an_id_that_all_unknown_elements_share_does_not_glue_the_list() -> None:
    elements: list[Element] = []
    for _ in range(8):
        elements += [user(), opaque(b'{"type":"note","model":"model-2024"}')]
    assert groups(elements) == [turn // 2 for turn in range(16)]


def test_ordinals_count_assistant_turns() -> None:
    elements = [user(), assistant("a"), result("a"), assistant(), assistant(), user()]
    assert call_ordinals(elements) == [0, 1, 1, 2, 3, 3]
    response = [user(), reasoning(), function_call("a"), function_call("b"), output("a"), output("b"), reasoning()]
    assert call_ordinals(response) == [0, 1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"command": "grep -rn \\"foo\\" src\\nls"}', 'grep -rn "foo" src ls'),
        ('{"command":["bash","-lc","ls -l"]}', "bash -lc ls -l"),
        ('{"command":"view","path":"/a/b.py","view_range":[1,2]}', "view /a/b.py"),
        ('{"order_id": "#W123", "note": "x"}', "#W123"),
        ('{"amount": 42}', "42"),
        ('{"text": "caf\\u00e9"}', "café"),
        ("print(1)\nprint(2)", "print(1) print(2)"),
        ("{}", ""),
        ("", ""),
        ('{"command": "cut off in the mid', ""),
    ],
)
def test_key_argument(arguments: str, expected: str) -> None:
    assert key_argument(arguments) == expected


ELEMENTS = st.lists(
    st.one_of(
        st.just(user()),
        st.lists(st.sampled_from("abc"), max_size=3).map(lambda ids: assistant(*ids)),
        st.sampled_from("abcd").map(result),
        st.sampled_from("abcd").map(function_call),
        st.just(reasoning()),
        st.sampled_from([b'{"id":"u_1111"}', b'{"ref":"u_1111"}', b'{"id":"u_2222"}']).map(opaque),
    ),
    max_size=30,
)


@given(ELEMENTS)
def test_groups_count_up_by_one_and_never_part_a_pair(elements: list[Element]) -> None:
    numbers = groups(elements)
    assert len(numbers) == len(elements)
    assert not numbers or numbers[0] == 0
    assert all(after - before in (0, 1) for before, after in pairwise(numbers))
    for index, site in pair_results(elements).items():
        assert site.index < index
        assert numbers[site.index] == numbers[index]
    for index, element in enumerate(elements[:-1]):
        if element.kind == "reasoning":
            assert numbers[index + 1] == numbers[index]


@given(ELEMENTS)
def test_ordinals_never_fall(elements: list[Element]) -> None:
    ordinals = call_ordinals(elements)
    assert all(after - before in (0, 1) for before, after in pairwise(ordinals))


@given(st.text(max_size=200))
def test_key_argument_is_one_line_for_any_text(text: str) -> None:
    assert "\n" not in key_argument(text)
