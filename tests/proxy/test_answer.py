"""What the client is told around a reply, from openings of every kind."""

from __future__ import annotations

import json
from typing import Any, cast

from proxy.answer import TOO_LARGE, end_of, give_up_reply, is_overflow, reply_head, seen_error
from proxy.core.overflow_rules import DEFAULT
from proxy.errors import UpstreamError
from proxy.relay import Opening, open_reply
from proxy.upstream import UpstreamResponse
from proxy.wire.chat import ChatFormat
from tests.proxy.test_relay import SSE, Body

REFUSAL = json.dumps({"error": {"message": "too long", "code": "context_length_exceeded"}}).encode()


def opening(status: int = 200, headers: Any = SSE, *, is_stream: bool = True) -> Opening:
    response = cast(UpstreamResponse, Body([], status, headers))
    return open_reply(response, ChatFormat().reader(is_stream=is_stream, strip_usage=False), is_stream=is_stream)


def test_a_head_passes_as_it_came_unless_the_body_is_changed() -> None:
    plain = opening(headers=[*SSE, (b"content-length", b"5"), (b"x-request-id", b"r")])
    head = dict(reply_head(plain, None, is_early=False))
    assert head[b"content-length"] == b"5" and head[b"x-request-id"] == b"r" and head[b"x-accel-buffering"] == b"no"
    assert b"content-length" not in dict(reply_head(plain, None, is_early=True))


def test_an_error_is_found_in_a_body_of_its_own_or_inside_a_success() -> None:
    refused = opening(400)
    refused.error_body = REFUSAL
    assert seen_error(refused) == REFUSAL and is_overflow(refused, DEFAULT)
    assert (end_of(refused).outcome, end_of(refused).error) == ("error", "too long")
    inside = opening()
    inside.reader.feed(b"data: " + REFUSAL + b"\n\n")
    assert is_overflow(inside, DEFAULT) and end_of(inside).outcome == "error"
    cut = opening()
    cut.failure = UpstreamError("broke off", kind="closed")
    assert (end_of(cut).outcome, end_of(cut).error) == ("interrupted", "broke off")
    assert end_of(opening()).outcome == "ok" and not is_overflow(opening(), DEFAULT)


def test_giving_up_keeps_status_and_code_and_says_what_to_do() -> None:
    refused = opening(400, [(b"content-type", b"text/plain"), (b"x-request-id", b"r")])
    refused.error_body = REFUSAL
    status, headers, body = give_up_reply(refused)
    assert status == 400 and (b"x-request-id", b"r") in headers and (b"content-type", b"text/plain") not in headers
    assert json.loads(body)["error"]["code"] == "context_length_exceeded"
    assert TOO_LARGE in json.loads(body)["error"]["message"]
