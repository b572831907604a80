import gc
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.model import Element, Frame
from proxy.errors import NotUnderstoodError
from proxy.wire.splitter import ElementCache, Splitter, join, outgoing_gaps
from tests.support.messy_json import json_values, messy


def read(raw: bytes) -> Element:
    return Element(raw, "message", "user", raw.decode("utf-8", "replace"), ())


def splitter(limit: int = 1 << 20) -> Splitter:
    return Splitter("list", read, limit)


def rejoin(split: Any) -> bytes:
    return join(split.frame, [element.raw for element in split.elements], split.frame.gaps)


@settings(max_examples=200)
@given(st.lists(st.lists(json_values(), max_size=4), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_any_spelling_comes_back_byte_for_byte(histories: list[list[Any]], random: Any) -> None:
    split = splitter()
    for history in [*histories, *histories]:
        items = [{"v": value} for value in history]
        body = messy({"a": "x", "list": items, "z": [1]}, random).strip().encode("utf-8", "surrogatepass")
        for _ in range(2):  # the second time every element is known
            found = split.split(body)
            assert rejoin(found) == body
            raws = [json.loads(e.raw.decode("utf-8", "surrogatepass")) for e in found.elements]
            assert raws == items
            assert json.loads(found.skeleton.decode("utf-8", "surrogatepass")) == {"a": "x", "list": [], "z": [1]}


def test_known_elements_are_the_same_objects_and_are_not_read_again() -> None:
    reads: list[bytes] = []

    def counting(raw: bytes) -> Element:
        reads.append(raw)
        return read(raw)

    split = Splitter("list", counting)
    first = split.split(b'{"list":[{"a":1},{"b":2}],"n":1}')
    second = split.split(b'{"list":[{"a":1},{"b":2},{"c":3}],"n":2}')
    third = split.split(b'{"m":1, "list": [ {"c":3} , {"a":1}]}')
    assert reads == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
    assert second.elements[:2] == first.elements
    assert third.elements == (second.elements[2], first.elements[0])


def test_branches_of_one_history_are_both_followed() -> None:
    split = splitter()
    bodies = [b'{"list":[{"a":1},{"b":%d},{"c":%d}]}' % (i, i) for i in range(9)]
    for body in [*bodies, *bodies]:
        assert rejoin(split.split(body)) == body


def test_an_element_that_begins_like_a_known_one_is_another() -> None:
    split = splitter()
    split.split(b'{"list":[{"a":1}]}')
    body = b'{"list":[{"a":1,"b":2},{"a":1}  ]}'
    assert [e.raw for e in split.split(body).elements] == [b'{"a":1,"b":2}', b'{"a":1}']


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"list"',
        b'{"lists":[]}',
        b'{"list":{}}',
        b'{"list":null}',
        b'{"list":[{"a":1}',
        b'{"list":[{"a":1},]}',
        b'{"list":[{"a":1} {"b":2}]}',
        b'{"list":[{"a":1},{"b":2',
        b'{"list":[{"a":NaN}',
        b'\xef\xbb\xbf{"list":[]}',
    ],
)
def test_broken_bodies_are_not_understood_known_or_not(body: bytes) -> None:
    split = splitter()
    for _ in range(2):
        with pytest.raises(NotUnderstoodError):
            split.split(body)
        split.split(b'{"list":[{"a":1}]}')
        split.split(b'{"list":[{"a":1},{"b":2}]}')


def test_half_a_pair_is_kept_as_it_came() -> None:
    body = b'{"list":[{"a":"\\ud83d"} , {"b":"\\uDE00 x"}], "x":1e400}'
    assert rejoin(splitter().split(body)) == body


def test_neighbours_keep_their_gap_and_others_get_a_comma() -> None:
    frame = Frame(b"[", (b" , ", b"\n,"), b"]")
    sources = [0, 1, None, 2]
    gaps = outgoing_gaps(frame, 3, sources)
    assert gaps == (b" , ", b",", b",")
    assert join(frame, [b"0", b"1", b"n", b"2"], gaps) == b"[0 , 1,n,2]"
    assert outgoing_gaps(frame, 3, [2, 1]) == (b",",)
    assert join(frame, [], ()) == b"[]"


def test_the_cache_is_bounded_and_keeps_what_is_used() -> None:
    cache = ElementCache(limit_bytes=40_000)
    kept = read(b'{"kept":1}')
    cache.add(kept)
    for i in range(500):
        cache.add(read(b'{"n":%d}' % i))
        assert cache.find(kept.raw) is not None
    assert len(cache) < 40
    assert cache.find(b'{"n":0}') is None


def test_dropped_elements_are_freed_though_others_pointed_at_them() -> None:
    split = splitter(limit=200_000)
    for i in range(300):
        split.split(b'{"list":[{"first":1},{"n":"%s"}]}' % (b"x" * 1000 + b"%d" % i))
    gc.collect()
    alive = [o for o in gc.get_objects() if type(o) is Element and o.raw.startswith(b'{"n":"xxx')]
    assert len(alive) < 60


def test_a_known_list_costs_far_less_than_a_new_one() -> None:
    items = [{"role": "user", "content": "word " * 400, "n": n} for n in range(200)]
    body = json.dumps({"list": items}).encode()
    warm = splitter(64 << 20)
    warm.split(body)
    started = time.perf_counter()
    for _ in range(5):
        warm.split(body)
    known = time.perf_counter() - started
    assert known / 5 < 0.02
