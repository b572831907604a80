"""One table: what an attempt showed, and what it calls for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.attempt import Shown, Verdict, error_text, judge
from proxy.core.overflow_rules import DEFAULT

PLAIN = Shown(
    status=400, error=b"", is_streamed=False, has_content=False, is_rewritten=False, asked_usage=False, estimate=1000,
    window=100_000,
)  # fmt: skip
TOO_LONG = b'{"error":{"message":"prompt is too long: 31000 tokens > 20000 maximum"}}'
OPTION = b'{"error":{"message":"unknown field stream_options"}}'
OTHER = b'{"error":{"message":"temperature must be below 2"}}'


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"status": 200}, Verdict.PASS_ON),
        ({"error": TOO_LONG}, Verdict.OVERFLOW),
        ({"status": 200, "error": TOO_LONG, "is_streamed": True}, Verdict.OVERFLOW),
        ({"status": 200, "error": TOO_LONG, "is_streamed": True, "has_content": True}, Verdict.PASS_ON),
        ({"error": TOO_LONG, "is_rewritten": True}, Verdict.OVERFLOW),
        ({"error": OPTION, "asked_usage": True}, Verdict.WITHOUT_USAGE),
        ({"error": OPTION, "asked_usage": True, "status": 422}, Verdict.WITHOUT_USAGE),
        ({"error": OPTION, "asked_usage": True, "status": 500}, Verdict.PASS_ON),
        ({"error": OPTION}, Verdict.PASS_ON),
        ({"error": OTHER, "asked_usage": True}, Verdict.PASS_ON),
        ({"error": OTHER}, Verdict.PASS_ON),
        ({"error": OTHER, "is_rewritten": True}, Verdict.AS_IT_CAME),
        ({"error": OTHER, "is_rewritten": True, "status": 429}, Verdict.PASS_ON),
        ({"error": OTHER, "is_rewritten": True, "status": 503}, Verdict.PASS_ON),
        ({"error": OTHER, "is_rewritten": True, "status": 401}, Verdict.PASS_ON),
    ],
)
def test_verdicts(changes: dict[str, object], verdict: Verdict) -> None:
    assert judge(replace(PLAIN, **changes), DEFAULT)[0] is verdict  # type: ignore[arg-type]


def test_figures_come_with_an_overflow() -> None:
    _, overflow = judge(replace(PLAIN, error=TOO_LONG), DEFAULT)
    assert overflow is not None and (overflow.limit, overflow.requested) == (20000, 31000)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (OTHER, "temperature must be below 2"),
        (b'{"error":"bare"}', "bare"),
        (b'{"detail":"not so"}', "not so"),
        (b"<html>", "<html>"),
        (b"", ""),
        (b"x" * 2000, "x" * 500),
        (b"[" * 900 + b"]" * 900, "[" * 500),
        (b"[" * 100_000, "[" * 500),
    ],
)
def test_error_texts(body: bytes, text: str) -> None:
    assert error_text(body) == text
