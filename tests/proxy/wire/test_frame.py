import json

import pytest

from proxy.core.model import Frame
from proxy.errors import NotUnderstoodError
from proxy.wire.base import FrameEdits
from proxy.wire.frame import FieldCache, edit_frame, read_fields

LIMITS = ("max_completion_tokens", "max_tokens")


def edited(body: bytes, edits: FrameEdits) -> bytes:
    """The body with the edits, split at the bracket of its list."""
    cut = body.index(b"[") + 1
    frame = edit_frame(Frame(body[:cut], (), body[cut:]), edits, limit_keys=LIMITS)
    return frame.prefix + frame.suffix


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"messages":[]}', b'{"messages":[],"stream_options":{"include_usage":true}}'),
        (
            b'{ "messages" : [ ] , "x":1.50 }\n',
            b'{ "messages" : [ ] , "x":1.50,"stream_options":{"include_usage":true} }\n',
        ),
        (b'{"messages":[],"stream_options":null}', b'{"messages":[],"stream_options":{"include_usage":true}}'),
        (b'{"messages":[],"stream_options":{ }}', b'{"messages":[],"stream_options":{"include_usage":true }}'),
        (
            b'{"stream_options": {"x":1}, "messages":[]}',
            b'{"stream_options": {"include_usage":true,"x":1}, "messages":[]}',
        ),
        (
            b'{"stream_options":{"include_usage": false},"messages":[]}',
            b'{"stream_options":{"include_usage": true},"messages":[]}',
        ),
        (
            b'{"stream_options":{"x":{"include_usage":0}},"messages":[],"t":"stream_options"}',
            b'{"stream_options":{"include_usage":true,"x":{"include_usage":0}},"messages":[],"t":"stream_options"}',
        ),
    ],
)
def test_asking_for_usage_changes_only_what_it_must(body: bytes, expected: bytes) -> None:
    found = edited(body, FrameEdits(ask_usage=True))
    assert found == expected
    assert json.loads(found)["stream_options"]["include_usage"] is True


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"max_tokens": 9000 ,"messages":[]}', b'{"max_tokens": 500 ,"messages":[]}'),
        (b'{"messages":[],"max_completion_tokens":9e3}', b'{"messages":[],"max_completion_tokens":500}'),
        (b'{"messages":[],"max_tokens":100}', b'{"messages":[],"max_tokens":100}'),
        (b'{"messages":[],"max_tokens":null}', b'{"messages":[],"max_tokens":null}'),
        (b'{"messages":[]}', b'{"messages":[]}'),
    ],
)
def test_an_allowance_is_only_lowered(body: bytes, expected: bytes) -> None:
    assert edited(body, FrameEdits(max_output=500)) == expected


def test_both_edits_on_both_sides_of_the_list() -> None:
    body = b'{"max_tokens":9,"messages":[],"stream_options":{},"max_completion_tokens":9}'
    found = json.loads(edited(body, FrameEdits(ask_usage=True, max_output=3)))
    assert found == {
        "max_tokens": 3,
        "messages": [],
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 3,
    }


def test_fields_are_read_and_typed() -> None:
    fields = read_fields(b'{"a":"x","n":2,"f":2.0,"b":true,"z":null,"e":[],"l":[],"t":[{}]}', "l")
    assert (fields.text("a"), fields.text("n"), fields.text("none")) == ("x", "", "")
    assert (fields.integer("n"), fields.integer("f"), fields.integer("b"), fields.integer("z")) == (2, 2, None, None)
    assert [fields.has(key) for key in "abzetq"] == [True, True, False, False, True, False]
    assert fields.raw["t"] == b"[{}]"


@pytest.mark.parametrize("skeleton", [b'{"l":[],"l":[]}', b'{"l":[]} x', b'{"l":[]', b'{"l":[],"x":NaN}', b'{"a":1}'])
def test_odd_skeletons_are_not_understood(skeleton: bytes) -> None:
    with pytest.raises(NotUnderstoodError):
        read_fields(skeleton, "l")


def test_a_field_that_cannot_be_read_is_not_understood_when_asked_for() -> None:
    fields = read_fields(b'{"l":[],"model":"\xff"}', "l")
    with pytest.raises(NotUnderstoodError):
        fields.text("model")


def test_the_cache_returns_the_same_fields_and_stays_small() -> None:
    cache = FieldCache("l", size=4)
    first = cache.read(b'{"l":[]}')
    assert cache.read(b'{"l":[]}') is first
    for i in range(20):
        assert cache.read(b'{"l":[],"i":%d}' % i).integer("i") == i
