import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes
from tests.support.messy_json import json_values, messy

LONE = b'{"a":"x\\ud83d y","b":[1, "\\uDC00"]}'


def test_odd_json_is_read() -> None:
    assert jsonbytes.loads(b'{"p":NaN}')["p"] != 0
    assert jsonbytes.loads(LONE)["a"] == "x\ud83d y"
    assert jsonbytes.loads('"\\ud800"') == "\ud800"
    with pytest.raises(ValueError, match="NaN"):
        jsonbytes.loads_strict(b'{"p":NaN}')
    assert jsonbytes.loads_strict(LONE)["b"][1] == "\udc00"


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b'"\xff"', b"nul", b"-", b"{} x"])
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        jsonbytes.loads(data)
    with pytest.raises(ValueError):
        jsonbytes.loads_strict(data)


@given(st.text() | st.text(alphabet='\ud800\udfffa"\\/\n\x00é🙂'))
def test_any_text_is_written_as_json(text: str) -> None:
    written = jsonbytes.dumps(text)
    written.decode()
    # Two halves that stand next to each other are one character once they are written as escapes.
    expected = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(written).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") == expected


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ('{"a": 1}', '{"a":1}'),
        ('{"b":1,"a":2}', '{"a":2,"b":1}'),
        ('{"a":"\\u00e9\\/"}', '{"a":"é/"}'),
        ('{"a":1.0,"b":[1e3]}', '{"a":1,"b":[1000]}'),
        ("", "{}"),
    ],
)
def test_reencoded_arguments_are_equal(one: str, two: str) -> None:
    assert jsonbytes.canonical(one) == jsonbytes.canonical(two)


@pytest.mark.parametrize("text", ["not json", '{"a":', "ls -la"])
def test_unparsable_arguments_stay_text(text: str) -> None:
    assert jsonbytes.canonical(text) == text


def test_different_arguments_differ() -> None:
    texts = ['{"a":1}', '{"a":"1"}', '{"a":1.5}', '{"a":true}', '{"a":[1]}', "{}", '{"a":12345678901234567890123}']
    assert len({jsonbytes.canonical(text) for text in texts}) == len(texts)


@given(json_values(), st.randoms(use_true_random=False))
def test_slices_of_any_spelling_are_exact(value: Any, random: Any) -> None:
    body = {"x": value, 'odd "key"\\': [value, 1], "é": {"in": value}}
    data = messy(body, random).encode("utf-8", "surrogatepass")
    members, end = jsonbytes.walk_object(data)
    assert data[end:].strip() == b""
    assert [m.key for m in members] == list(body)
    assert [json.loads(data[m.start : m.end].decode("utf-8", "surrogatepass")) for m in members] == list(body.values())
    raws = jsonbytes.split_list(jsonbytes.slice_value(data, 'odd "key"\\') or b"")
    assert [json.loads(raw.decode("utf-8", "surrogatepass")) for raw in raws] == [value, 1]
    inner = jsonbytes.slice_value(data, "é", "in")
    assert inner is not None
    assert json.loads(inner.decode("utf-8", "surrogatepass")) == value
    changed = jsonbytes.replace_value(data, "x", b"0")
    assert changed == data[: members[0].start] + b"0" + data[members[0].end :]


def test_values_that_a_faster_splitter_found_are_verified() -> None:
    data = b'{"a":[1],"b":12,"a":[1,2],"c":"x"}'
    plain = jsonbytes.walk_object(data)
    assert jsonbytes.walk_object(data, values=jsonbytes.raw_values(data)) == plain
    assert jsonbytes.walk_object(data, values={"b": b"1"}) == plain


def test_the_last_of_two_equal_keys_counts() -> None:
    data = b'{"a":1, "a" : 2}'
    assert jsonbytes.slice_value(data, "a") == b"2"
    assert jsonbytes.replace_value(data, "a", b"3") == b'{"a":1, "a" : 3}'


def test_a_key_in_disguise_is_found() -> None:
    assert jsonbytes.slice_value(b'{"\\u0061":1}', "a") == b"1"


def test_text_that_looks_like_json_fools_nobody() -> None:
    data = b'{"t":"\\"messages\\":[1]","u":{"messages":[2]},"messages":[3]}'
    assert jsonbytes.slice_value(data, "messages") == b"[3]"


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{", b'{"a"}', b'{"a":}', b'{"a":1', b'{"a":1,}', b'{"a":"x}', b'{"a":[1}', b"{a:1}", b'{"a":NaN}'],
)
def test_broken_objects_are_not_understood(data: bytes) -> None:
    with pytest.raises(NotUnderstoodError):
        jsonbytes.walk_object(data)


@pytest.mark.parametrize("data", [b"{}", b"[1", b"[1 2]", b"[1,]", b"[1] 2", b"[NaN]"])
def test_broken_lists_are_not_understood(data: bytes) -> None:
    with pytest.raises(NotUnderstoodError):
        jsonbytes.split_list(data)


def test_a_list_with_half_a_pair_is_split_by_the_scanner() -> None:
    assert jsonbytes.split_list(b'[ "\\ud800" ,{"a":"]"}]') == [b'"\\ud800"', b'{"a":"]"}']


def test_replacing_nothing_is_refused() -> None:
    with pytest.raises(NotUnderstoodError):
        jsonbytes.replace_value(b"{}", "a", b"1")
    assert jsonbytes.slice_value(b'{"a":1}', "a", "b") is None
