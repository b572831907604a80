"""Error bodies: any bytes are read without a raise, and what is said to a client has the shape that SDKs expect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.wire.errors import api_error, error_fields, load, loads_text, names_option, too_large


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"error": "x"}', {"error": "x"}),
        (b'["x"]', ["x"]),
        (b"", ""),
        (b"<html>502</html>", "<html>502</html>"),
        (b'{"error": ', '{"error": '),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"n": 1e999}', {"n": float("inf")}),
        (b'{"n": Infinity}', {"n": float("inf")}),
        (b'"\\ud83d"', "\ud83d"),
    ],
)
def test_any_body_has_a_value(body: bytes, value: object) -> None:
    assert load(body) == value


def nested(start: bytes, end: bytes, depth: int) -> bytes:
    return start * depth + b'"x"' + end * depth


@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"error":', b"}"), (b'{"detail":[', b"]}")])
@pytest.mark.parametrize("depth", [400, 900, 100_000])
def test_however_deep_it_is_nested(start: bytes, end: bytes, depth: int) -> None:
    assert error_fields(load(nested(start, end, depth))) == {}
    assert error_fields(load(start * depth)) == {}


def test_numbers_that_are_too_long_to_be_read() -> None:
    assert load(b"[" + b"9" * 10_000 + b"]") is not None


def test_text_that_holds_json() -> None:
    assert loads_text('{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError):
        loads_text("not so")


def test_an_option_is_named_or_not() -> None:
    assert names_option(b'{"error": "unknown field stream_options"}', "stream_options")
    assert not names_option(b'{"error": "unknown field tools"}', "stream_options")


FIELDS = {"type": "t", "param": "p", "code": "c"}


@pytest.mark.parametrize(
    "value",
    [
        {"error": {"message": "m", **FIELDS}},
        {"message": "m", **FIELDS},
        {"detail": {"error": {"message": "m", **FIELDS}}},
        {"type": "response.failed", "response": {"error": {"message": "m", **FIELDS}}},
        [{"error": {"message": "m", **FIELDS}}],
        ["noise", {}, {"message": "m", **FIELDS}],
        {"error": {"note": "no error here"}, "message": "m", **FIELDS},
    ],
)
def test_an_error_is_found_wherever_it_stands(value: object) -> None:
    assert error_fields(value) == FIELDS


@pytest.mark.parametrize("value", [None, "text", 400, [], {}, {"error": "text"}, {"type": "list", "data": []}])
def test_what_is_no_error_has_no_fields(value: object) -> None:
    assert error_fields(value) == {}


@pytest.mark.parametrize(
    ("value", "kind", "param", "code"),
    [
        ({"error": {"message": "m", **FIELDS}}, "t", "p", "c"),
        ({"error": {"message": "m", "type": None, "code": None}}, "invalid_request_error", None, None),
        ({"type": "error", "message": "m", "code": 400}, "invalid_request_error", None, 400),
        ("n_ctx exceeded", "invalid_request_error", None, None),
    ],
)
def test_too_large_keeps_what_the_provider_called_it(value: object, kind: str, param: Any, code: Any) -> None:
    error = json.loads(too_large(value, "send it again"))["error"]
    assert error == {
        "message": "send it again",
        "type": kind,
        "param": param,
        "code": code or "context_length_exceeded",
    }


def test_an_error_of_our_own_says_whose_it_is() -> None:
    error = json.loads(api_error('a "b"\n', code="c"))["error"]
    assert error == {"message": 'a "b"\n', "type": "undercliff_error", "param": None, "code": "c"}
