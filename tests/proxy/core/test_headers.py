"""Which headers cross, and in what form."""

from __future__ import annotations

import pytest

from proxy.core.headers import as_mapping, header, request_headers, response_headers

HOP = [
    (b"Connection", b"Keep-Alive, X-Mine"),
    (b"keep-alive", b"timeout=5"),
    (b"TE", b"trailers"),
    (b"Trailer", b"expires"),
    (b"Transfer-Encoding", b"chunked"),
    (b"Upgrade", b"h2c"),
    (b"HTTP2-Settings", b"AAMAAABkAAQ"),
    (b"proxy-authorization", b"Basic abc"),
    (b"X-Mine", b"1"),
]
BODY = [(b"Content-Encoding", b"gzip"), (b"Content-Digest", b"sha-256=:x:"), (b"ETag", b'"e"'), (b"Content-MD5", b"x")]


def test_http_07_nothing_of_one_link_goes_over_the_next() -> None:
    kept = [(b"Authorization", b"Bearer k"), (b"x-a", b"1"), (b"X-A", b"2")]
    assert request_headers([*HOP, *kept], is_rewritten=False) == kept
    assert response_headers([*HOP, (b"X-A", b"1"), (b"x-a", b"2")], is_decoded=False) == [
        (b"x-a", b"1"),
        (b"x-a", b"2"),
    ]


def test_what_is_ours_stays_here() -> None:
    ours = [(b"X-Undercliff-Key", b"k"), (b"x-ctx-conversation", b"c")]
    assert request_headers([*ours, (b"host", b"me"), (b"expect", b"100-continue")], is_rewritten=False) == []
    forged = [(b"x-undercliff-window", b"forged")]
    extra = [(b"x-undercliff-window", b"w")]
    assert response_headers(forged, is_decoded=False, extra=extra) == extra


@pytest.mark.parametrize("is_changed", [True, False])
def test_headers_that_describe_the_bytes_go_with_the_bytes(is_changed: bool) -> None:
    sent = request_headers([*BODY, (b"Accept-Encoding", b"br")], is_rewritten=is_changed)
    assert sent == ([(b"accept-encoding", b"identity")] if is_changed else [*BODY, (b"Accept-Encoding", b"br")])
    lower = [(name.lower(), value) for name, value in BODY]
    assert response_headers(BODY, is_decoded=is_changed) == ([] if is_changed else lower)


def test_http_05_some_headers_stand_only_once() -> None:
    headers = [
        (b"Date", b"one"),
        (b"date", b"two"),
        (b"Server", b"s"),
        (b"Set-Cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
    ]
    assert response_headers(headers, is_decoded=False) == [
        (b"date", b"one"),
        (b"server", b"s"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
    ]


@pytest.mark.parametrize(
    "bad", [(b"x y", b"1"), (b"", b"1"), (b"x", b"a\x01"), (b"x", b"a\r\nset-cookie: b"), (b"x\n", b"")]
)
def test_what_is_no_field_is_left_out(bad: tuple[bytes, bytes]) -> None:
    assert response_headers([bad, (b"x-ok", b"\ta\xff")], is_decoded=False) == [(b"x-ok", b"\ta\xff")]


def test_reading() -> None:
    headers = [(b"X-A", b"1"), (b"x-a", b"2"), (b"x-b", b"\xe9")]
    assert (header(headers, b"x-a"), header(headers, b"x-c")) == ("1", "")
    assert as_mapping(headers) == {"x-a": "1", "x-b": "é"}
