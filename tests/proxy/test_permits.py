"""Which models a team may call: read from the body itself, whatever the path."""

from __future__ import annotations

import json

import pytest

from proxy.permits import ALL, Permits

PERMITS = Permits("harbour", ("gpt-5*", "o3"))


@pytest.mark.parametrize(
    "body", [b'{"model":"gpt-5.4","x":1}', b' {"x":[1],"model" : "o3"}', b'{"model":"o3","model":"gpt-5"}']
)
def test_sec_allowed(body: bytes) -> None:
    assert PERMITS.refusal(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"gpt-4"}',
        b'{"model":"gpt-5","model":"gpt-4"}',
        b'{"model":"gpt-4","model":"gpt-5"}',  # some parsers take the first
        b'{"model":["gpt-5"]}',
        b'{"messages":[{"model":"gpt-5"}]}',
        b"{}",
        b"",
        b"--form\r\nmodel=gpt-5",
        b'{"model":"GPT-5"}',
        b'{"mod\\u0065l":"gpt-4"}',
    ],
)
def test_sec_refused_by_name(body: bytes) -> None:
    refusal = PERMITS.refusal(body)
    assert refusal is not None
    error = json.loads(refusal)["error"]
    assert error["code"] == "model_not_allowed" and "teams.harbour.allowed_models" in error["message"]


def test_without_a_list_everything_is_allowed() -> None:
    assert ALL.refusal(b"no json") is None
