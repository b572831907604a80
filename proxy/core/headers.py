"""Which headers may cross a proxy. Pure; headers are lists of (name, value) bytes, names in any case."""

from __future__ import annotations

import re
from collections.abc import Iterable

RawHeaders = list[tuple[bytes, bytes]]

# RFC 9110 section 7.6.1, and the connection-level fields that older peers still send.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# They describe the bytes as they came; wrong once the body was decoded or rewritten.
BODY_BOUND = frozenset(
    {b"content-length", b"content-encoding", b"content-md5", b"content-digest", b"repr-digest", b"digest", b"etag"}
)
# Ours alone: never sent to the provider, never taken from it.
OWN_PREFIX = b"x-undercliff-"
OWN_REQUEST = frozenset({b"x-ctx-conversation"})
# What front servers add about the client and themselves.
FORWARDED = frozenset(
    {
        *(
            b"forwarded",
            b"via",
            b"x-original-host",
            b"x-real-ip",
            b"x-client-ip",
            b"true-client-ip",
            b"cf-connecting-ip",
        ),
        *(b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-port", b"x-forwarded-server"),
    }
)
# One value is all that a strict client accepts; a proxy that adds its own makes two.
SINGLE = frozenset({b"server", b"date", b"content-length", b"content-type"})
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


def named_in_connection(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """Names that `Connection` declares to be hop-by-hop."""
    names: set[bytes] = set()
    for name, value in headers:
        if name.lower() == b"connection":
            names.update(part.strip().lower() for part in value.split(b","))
    return names


def request_headers(headers: Iterable[tuple[bytes, bytes]], *, is_rewritten: bool) -> RawHeaders:
    """What goes upstream. `Host` and the body's length are set by the HTTP client."""
    incoming = list(headers)
    dropped = HOP_BY_HOP | named_in_connection(incoming) | OWN_REQUEST | {b"host", b"content-length", b"expect"}
    if is_rewritten:
        dropped |= BODY_BOUND | {b"accept-encoding"}
    kept = [(n, v) for n, v in incoming if n.lower() not in dropped and not n.lower().startswith(OWN_PREFIX)]
    if is_rewritten:
        # Some servers compress event streams when they may; a compressed stream cannot be read as it passes.
        kept.append((b"accept-encoding", b"identity"))
    return kept


def response_headers(
    headers: Iterable[tuple[bytes, bytes]], *, is_decoded: bool, extra: Iterable[tuple[bytes, bytes]] = ()
) -> RawHeaders:
    """What goes to the client: repeated headers stay repeated, but for those that may stand only once.

    What is no valid field at all is left out: no server may send it, and the reply matters more than it.
    """
    incoming = list(headers)
    dropped = HOP_BY_HOP | named_in_connection(incoming)
    if is_decoded:
        dropped |= BODY_BOUND
    kept: RawHeaders = []
    seen: set[bytes] = set()
    for name, value in incoming:
        lower = name.lower()
        if lower in dropped or lower.startswith(OWN_PREFIX) or (lower in SINGLE and lower in seen):
            continue
        if not _NAME.fullmatch(name) or _CONTROL.search(value):
            continue
        seen.add(lower)
        kept.append((lower, value))
    kept.extend(extra)
    return kept


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The first value of `name` as text, "" when absent."""
    for key, value in headers:
        if key.lower() == name:
            return value.decode("latin-1")
    return ""


def as_mapping(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Lower-case names to values; the first of a repeated header wins."""
    out: dict[str, str] = {}
    for name, value in headers:
        out.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return out
