"""A request's whole body: within the cap, without its codings."""

from __future__ import annotations

import gzip

import pytest

from proxy.core.headers import RawHeaders
from proxy.incoming import read_request
from proxy.link import BodyTooLargeError, ClientGoneError, ClientLink
from tests.support.asgi import receiving
from tests.support.replies import encode_body

CAP = 1000
IDENTITY = (b"accept-encoding", b"identity")


async def read(headers: RawHeaders, *parts: bytes, leaves: bool = False) -> tuple[bytes, RawHeaders]:
    return await read_request(headers, ClientLink(receiving(*parts, leaves=leaves)), CAP)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity", ""])
async def test_http_03_codings_are_undone(coding: str) -> None:
    data = encode_body(b"{}" * 99, coding) if coding not in ("", "identity") else b"{}" * 99
    sent = [(b"content-encoding", coding.encode()), (b"content-length", str(len(data)).encode()), (b"x-a", b"1")]
    assert await read(sent, data[:5], data[5:]) == (b"{}" * 99, [(b"x-a", b"1"), IDENTITY])


@pytest.mark.parametrize("coding", [b"compress", b"gzip"])
async def test_what_cannot_be_undone_stays_as_it_came(coding: bytes) -> None:
    sent = [(b"content-encoding", coding), (b"accept-encoding", b"br")]
    assert await read(sent, b"not gzip") == (b"not gzip", sent)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([(b"content-length", b"1001")], b""),
        ([(b"transfer-encoding", b"chunked")], b"x" * 1001),
        ([(b"content-encoding", b"gzip")], gzip.compress(b"x" * 1001)),
    ],
    ids=["announced", "sent", "decoded"],
)
async def test_too_large(headers: RawHeaders, body: bytes) -> None:
    with pytest.raises(BodyTooLargeError):
        await read(headers, body)


async def test_a_client_that_leaves() -> None:
    with pytest.raises(ClientGoneError):
        await read([], b"{", leaves=True)
