"""Reads a request's whole body: within the cap, and without its content codings. Knows nothing of what it says."""

from __future__ import annotations

import asyncio

from proxy.codings import CodingError, decode_body
from proxy.core.headers import RawHeaders, header, request_headers
from proxy.link import BodyTooLargeError, ClientLink


async def read_request(headers: RawHeaders, link: ClientLink, cap: int) -> tuple[bytes, RawHeaders]:
    """The plain body and the headers that go upstream with it.

    A body whose coding cannot be undone stays as it came, and so do the headers that describe it.
    Raises `ClientGoneError`, and `BodyTooLargeError` past `cap` bytes, coded or not.
    """
    if int(header(headers, b"content-length") or 0) > cap:
        raise BodyTooLargeError
    body = await link.body(cap)
    if codings := header(headers, b"content-encoding"):
        try:
            # In a thread: a body may take a second to undo, and other streams must not wait for it.
            body = await asyncio.to_thread(decode_body, body, codings, cap=cap)
        except CodingError as error:
            if error.is_too_large:
                raise BodyTooLargeError from error
            return body, request_headers(headers, is_rewritten=False)
    return body, request_headers(headers, is_rewritten=True)
