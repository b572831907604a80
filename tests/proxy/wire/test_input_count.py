"""The request that has the input counted, and its answer."""

from __future__ import annotations

import json

import pytest

from proxy.errors import NotUnderstoodError
from proxy.wire.input_count import count_request, read_count


def test_only_what_says_something_of_the_input_is_asked_about_byte_for_byte() -> None:
    body = (
        b'{"model": "m", "stream": true,"input": [ {"role":"user","content":"\\u00e9 \xc3\xa9"} ],"store":false,'
        b'"include":["x"],"instructions":"Be kind.","tools":[{"type":"function","name":"look"}],"max_output_tokens":9}'
    )
    made = count_request(body)
    assert set(json.loads(made)) == {"model", "input", "instructions", "tools"}
    assert b'[ {"role":"user","content":"\\u00e9 \xc3\xa9"} ]' in made
    with pytest.raises(NotUnderstoodError):
        count_request(b"[]")


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"object":"response.input_tokens","input_tokens":4711}', 4711),
        (b'{"input_tokens":true}', None),
        (b'{"input_tokens":"4711"}', None),
        (b'{"input_tokens":0}', None),
        (b'{"error":{"message":"no"}}', None),
        (b"[4711]", None),
        (b"4711", None),
        (b"<html>", None),
        (b"", None),
    ],
)
def test_what_is_no_count_is_none(body: bytes, count: int | None) -> None:
    assert read_count(body) == count
