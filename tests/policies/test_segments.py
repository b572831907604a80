"""How a text is cut: lines, JSON by subtrees, calls by their values, encoded data never."""

from __future__ import annotations

import base64
import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.segments import LONG_LINE, SUBTREE, excerpt_body, split

DATA = base64.b64encode(random.Random(3).randbytes(900)).decode()


def texts(text: str) -> list[str]:
    return [segment.text for segment in split(text)]


def test_lines_are_segments_and_blank_ones_are_not() -> None:
    assert texts("one\n\n  two  \n") == ["one", "  two  "]


def test_a_long_line_is_cut_at_a_space_or_a_comma() -> None:
    pieces = texts("word " * 200)
    assert all(len(piece) <= LONG_LINE for piece in pieces)
    assert "".join(pieces) == "word " * 200
    assert all(piece.endswith(" ") for piece in pieces)


def test_json_on_few_lines_is_walked_down_and_keeps_its_keys() -> None:
    order = {"order": {"id": "#W1", "items": [{"name": "lamp", "note": "x" * 150, "size": "y" * 100}] * 2}}
    segments = split(json.dumps(order))
    assert segments[0].keys == "order" and segments[0].text == '"id": "#W1"'
    assert {segment.keys for segment in segments} == {"order", "order.items.0", "order.items.1"}
    assert all(len(segment.text) <= SUBTREE for segment in segments)


def test_a_row_of_plain_values_stands_together() -> None:
    segments = split(json.dumps({"rows": list(range(400))}))
    assert all(SUBTREE / 2 < len(segment.text) <= SUBTREE for segment in segments[:-1])


def test_a_long_string_in_json_is_cut_into_the_lines_that_it_says() -> None:
    text = json.dumps([{"type": "text", "text": 'first line\nsecond "line"\n' + "z" * 300}])
    assert texts(text)[1:3] == ["first line", 'second "line"']


def test_a_call_is_cut_into_the_lines_of_its_values() -> None:
    arguments = json.dumps({"path": "a.py", "text": "def f():\n    return 1"})
    segments = split(f"I write it.\nwrite({arguments})")
    assert [segment.kind for segment in segments] == ["line", "call", "call", "call"]
    assert [segment.text for segment in segments][2:] == ["def f():", "    return 1"]
    assert {segment.tool for segment in segments[1:]} == {"write"}


def test_a_short_call_stays_one_segment() -> None:
    assert texts('bash({"command": "ls"})') == ['bash({"command": "ls"})']


def test_broken_arguments_are_lines() -> None:
    assert texts('bash({"command": "ls)') == ['bash({"command": "ls)']


def test_encoded_data_is_one_segment_wherever_it_stands() -> None:
    wrapped = "\n".join(DATA[at : at + 76] for at in range(0, len(DATA), 76))
    for text in (
        f"before data:image/png;base64,{DATA} after",
        f"key:\n{wrapped}\nend",
        json.dumps({"image": f"data:image/png;base64,{DATA}", "name": "x" * 200}),
        json.dumps({"log": f"one\n{DATA}\ntwo", "pad": "y" * 100}),
        f'show({{"image": "{DATA}"}})',
    ):
        holding = [segment.text for segment in split(text) if DATA[100:140] in segment.text.replace("\n", "")]
        assert len(holding) == 1
        whole = holding[0].replace("\n", "")
        assert DATA in whole


def test_deep_and_broken_json_is_no_trouble() -> None:
    for text in (
        "[" * 50_000 + "]" * 50_000,
        "[" * 3_000 + '"' + "x" * 300,
        '{"a": ' * 500 + "1" + "}" * 500,
        "{" * 300,
    ):
        assert split(text)


def test_an_excerpt_marks_gaps_and_shows_keys_once() -> None:
    text = json.dumps({"a": {"one": "x" * 200, "two": "y" * 100}, "b": 1})
    segments = split(text)
    body = excerpt_body(text, segments, (0, 1))
    assert body.splitlines()[0].startswith('a: "one"')
    assert body.splitlines()[1].startswith('"two"')
    assert body.splitlines()[2] == "…"
    assert excerpt_body(text, segments, tuple(range(len(segments)))) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=20), inner, max_size=6),
    max_leaves=30,
)


@settings(deadline=None)
@given(json_values)
def test_every_leaf_of_json_is_in_some_segment(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    joined = "\n".join(segment.text for segment in split(text))
    for word in json.dumps(value, ensure_ascii=False).replace('"', " ").split():
        if word.isalnum() and word.isascii():
            assert word in joined or len(text) > SUBTREE


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from('ab \n\t{}[]":,\\()x1é😀'), max_size=900))
def test_segments_are_in_order_and_within_the_text(text: str) -> None:
    segments = split(text)
    assert segments == split(text)
    at = 0
    for segment in segments:
        assert 0 <= segment.start < segment.end <= len(text)
        assert segment.start >= at or segment.kind in ("call", "json")
        at = segment.start
        if segment.kind in ("line", "data"):
            assert text[segment.start : segment.end] == segment.text
    if not any(segment.kind in ("call", "json") for segment in segments):
        kept = "".join(segment.text for segment in segments)
        assert kept.split() == text.split() or "".join(kept.split()) == "".join(text.split())
