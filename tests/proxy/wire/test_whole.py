"""Collecting a whole reply: content, errors and size."""

from __future__ import annotations

import pytest

from proxy.wire.whole import WHOLE_REPLY, WholeBody


@pytest.mark.parametrize(
    ("body", "has_content", "error"),
    [
        (b'{"choices":[{"message":{}}]}', True, b""),
        (b'{"error":{"message":"no"}}', False, b'{"error":{"message":"no"}}'),
        (b"  \n", False, b""),
        (b"not json", True, b""),
    ],
)
def test_an_error_shows_at_the_end(body: bytes, has_content: bool, error: bytes) -> None:
    whole = WholeBody()
    assert b"".join(whole.feed(body[i : i + 1]) for i in range(len(body))) == body
    assert not whole.has_content and not whole.is_done and not whole.error
    assert whole.finish() == b""
    assert (whole.has_content, whole.error, whole.is_done, whole.body) == (has_content, error, True, body)


def test_a_long_reply_is_content_before_its_end() -> None:
    whole = WholeBody()
    whole.feed(b"x" * WHOLE_REPLY)
    assert not whole.has_content
    whole.feed(b"x")
    assert whole.has_content and not whole.at_event_boundary


def test_a_cut_body_has_no_document() -> None:
    whole = WholeBody()
    whole.feed(b'{"a":')
    assert whole.document() is None
    whole.feed(b"1}")
    assert whole.document() == {"a": 1}
