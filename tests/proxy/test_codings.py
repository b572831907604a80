"""Codings of bodies: whole ones with a cap that holds while they grow, and replies in any pieces."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import brotli
import pytest
import zstandard

from proxy.codings import CodingError, decode_body, decoder
from tests.support.feeds import feeds
from tests.support.replies import encode_body

CODINGS = ("gzip", "deflate", "br", "zstd")
TEXT = b'{"messages": [{"role": "user", "content": "the tide table"}]}' * 50
CAP = 1 << 20
BOMBS = {
    "gzip": lambda size: gzip.compress(bytes(size)),
    "deflate": lambda size: zlib.compress(bytes(size)),
    "br": lambda size: brotli.compress(bytes(size), quality=5),
    "zstd": lambda size: zstandard.ZstdCompressor().compress(bytes(size)),
}


@pytest.mark.parametrize("coding", [*CODINGS, "x-gzip", "GZIP", " br "])
def test_a_whole_body(coding: str) -> None:
    name = coding.strip().lower().removeprefix("x-")
    assert decode_body(encode_body(TEXT, name), coding, cap=len(TEXT)) == TEXT


@pytest.mark.parametrize("coding", CODINGS)
def test_a_reply_in_any_pieces(coding: str) -> None:
    for pieces in feeds(encode_body(TEXT, coding)):
        inner = decoder(coding)
        assert b"".join(inner.feed(piece) for piece in pieces) == TEXT
        assert inner.is_complete


@pytest.mark.parametrize("coding", [*CODINGS, "zstd, gzip"])
def test_a_reply_that_breaks_off_is_not_complete(coding: str) -> None:
    data = TEXT
    for each in coding.split(", "):
        data = encode_body(data, each)
    inner = decoder(coding)
    assert inner.is_complete  # an empty body is whole
    inner.feed(data[:-5])
    assert not inner.is_complete


def test_no_coding_and_several() -> None:
    assert decode_body(TEXT, "", cap=0) == decode_body(TEXT, "identity, ", cap=0) == TEXT
    twice = encode_body(encode_body(TEXT, "zstd"), "gzip")
    assert decode_body(twice, "zstd, gzip", cap=CAP) == decoder("zstd, identity, gzip").feed(twice) == TEXT
    assert decoder("").feed(TEXT) == TEXT


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_bodies_in_several_members(coding: str) -> None:
    parts = encode_body(b"one ", coding) + encode_body(b"two", coding)
    assert decode_body(parts, coding, cap=CAP) == decoder(coding).feed(parts) == b"one two"


def test_raw_deflate() -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    raw = packer.compress(TEXT) + packer.flush()
    assert decode_body(raw, "deflate", cap=CAP) == decoder("deflate").feed(raw) == TEXT


@pytest.mark.parametrize("coding", CODINGS)
def test_bodies_that_are_not_what_they_say(coding: str) -> None:
    whole = encode_body(TEXT, coding)
    for body in (TEXT, whole[:-3], whole[: len(whole) // 2]):
        with pytest.raises(CodingError) as caught:
            decode_body(body, coding, cap=CAP)
        assert not caught.value.is_too_large
    assert decode_body(b"", coding, cap=CAP) == b""


@pytest.mark.parametrize("codings", ["compress", "gzip, aws-chunked", "br,br,br,br,br"])
def test_codings_that_are_not_undone(codings: str) -> None:
    for act in (lambda: decode_body(TEXT, codings, cap=CAP), lambda: decoder(codings)):
        with pytest.raises(CodingError):
            act()


@pytest.mark.parametrize("coding", CODINGS)
def test_the_cap_is_exact(coding: str) -> None:
    body = encode_body(TEXT, coding)
    with pytest.raises(CodingError) as caught:
        decode_body(body, coding, cap=len(TEXT) - 1)
    assert caught.value.is_too_large


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_does_not_fill_the_memory(coding: str) -> None:
    bomb = BOMBS[coding](200 << 20)
    assert len(bomb) < CAP
    tracemalloc.start()
    try:
        with pytest.raises(CodingError) as caught:
            decode_body(bomb, coding, cap=CAP)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.is_too_large and peak < 20 << 20
