"""The HTTP client towards the provider. Never retries, never follows a redirect; foreign errors become ours."""

from __future__ import annotations

import io
import ipaddress
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi
import yarl

from proxy.core.headers import RawHeaders
from proxy.errors import UpstreamError

# What aiohttp would add by itself: the provider sees the client's own headers or none.
_NO_AUTO_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_READ_SIZE = 64 * 1024
# Heads of replies: aiohttp's own limits refuse what providers behind several gateways do send.
_MAX_FIELD_BYTES = 64 * 1024
_MAX_FIELDS = 1000
_ONE_WRITE = 1 << 20


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """Times in seconds. `keepalive_s` stays below the idle limit of common servers (5 s): a request
    must never be written to a connection that the other side is about to close."""

    connect_timeout_s: float = 10.0
    read_timeout_s: float = 900.0
    keepalive_s: float = 4.0
    max_connections: int = 1000
    trust_env: bool = False
    verify_tls: bool = True


def proxy_for(url: yarl.URL) -> str | None:
    """The proxy that the environment names for `url`; none for this machine, whatever it says."""
    host = url.host or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    return getproxies().get(url.scheme)


def is_loopback(host: str) -> bool:
    """Does `host` name this machine itself?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _text(value: bytes) -> str:
    """A header's value for aiohttp, which writes UTF-8: bytes that are so go out as they came."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _session(options: UpstreamOptions, context: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    """The engine, set so that it sends what it is given and nothing else."""
    connector = aiohttp.TCPConnector(
        limit=options.max_connections,
        keepalive_timeout=options.keepalive_s,
        ssl=context,
        enable_cleanup_closed=False,
    )
    session = aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=_NO_AUTO_HEADERS,
        # Not trust_env: it would also send what a .netrc holds for the host, in place of the client's key.
        trust_env=False,
        read_bufsize=2 * _READ_SIZE,
        max_line_size=_MAX_FIELD_BYTES,
        max_field_size=_MAX_FIELD_BYTES,
        max_headers=_MAX_FIELDS,
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=options.connect_timeout_s, sock_read=options.read_timeout_s
        ),
    )
    # aiohttp would send a GET or DELETE again when a reused link closes: whether it was carried out is not known.
    session._retry_connection = False
    return session


@lru_cache(maxsize=1024)
def _url(text: str) -> yarl.URL:
    """The URL exactly as given: its percent-encoding is not normalised."""
    return yarl.URL(text, encoded=True)


class _Pieces(io.BytesIO):
    """A large body that knows whether all of it was taken."""

    is_taken = False

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self.is_taken = self.is_taken or self.tell() == len(self.getbuffer())
        return piece


class UpstreamResponse:
    """A reply whose body has not been read yet. `aclose` is safe at any time and twice."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: RawHeaders = list(response.raw_headers)

    async def read(self) -> bytes:
        """The next body bytes as they arrive, still content-encoded; b"" at the end.

        May be cancelled without losing bytes. Raises `UpstreamError` when the body breaks off.
        """
        content = self._response.content
        with _foreign_errors():
            return _arrived(content) or await content.readany()

    async def aclose(self) -> None:
        # Not release(): a reply that was not read to its end must not be drained and reused.
        self._response.close()

    def finish(self) -> None:
        """The body was read to its end: the connection may be used again."""
        self._response.release()


class Upstream:
    """Sends requests to the configured provider and nowhere else."""

    def __init__(self, options: UpstreamOptions) -> None:
        self._options = options
        # Now, not with the first request: reading the roots takes as long as several of them.
        self._tls = ssl.create_default_context(cafile=certifi.where()) if options.verify_tls else False
        self._engine: aiohttp.ClientSession | None = None

    async def send(
        self, method: str, url: str, headers: RawHeaders, content: bytes | AsyncIterator[bytes] | None
    ) -> UpstreamResponse:
        """One request, one reply head. Raises `UpstreamError`.

        A whole body that a closing connection did not take is sent once more: nobody has it whole.
        """
        try:
            return await self._send(method, url, headers, content)
        except UpstreamError as error:
            if not isinstance(content, bytes) or error.kind != "closed" or not error.is_unsent:
                raise
        return await self._send(method, url, headers, content)

    async def _send(
        self, method: str, url: str, headers: RawHeaders, content: bytes | AsyncIterator[bytes] | None
    ) -> UpstreamResponse:
        if self._engine is None:  # it belongs to the loop that it is made on
            self._engine = _session(self._options, self._tls)
        data: bytes | io.BytesIO | AsyncIterator[bytes] | None = content or None
        if isinstance(content, bytes) and len(content) > _ONE_WRITE:
            # A large body goes out in pieces, so that no single write holds the event loop.
            data = _Pieces(content)
        try:
            with _foreign_errors():
                target = _url(url)
                response = await self._engine.request(
                    method,
                    target,
                    headers=[(name.decode("latin-1"), _text(value)) for name, value in headers],
                    data=data,
                    allow_redirects=False,
                    proxy=proxy_for(target) if self._options.trust_env else None,
                )
                if not 200 <= response.status <= 599:
                    response.close()
                    raise ValueError(f"status {response.status}")
                return UpstreamResponse(response)
        except UpstreamError as error:
            error.is_unsent = _refused_bytes(error) or (isinstance(data, _Pieces) and not data.is_taken)
            raise

    async def aclose(self) -> None:
        if self._engine is not None:
            await self._engine.close()


def _arrived(content: aiohttp.StreamReader) -> bytes:
    """What arrived before the connection broke: aiohttp would raise its error in place of these bytes."""
    if content.exception() is None or not content._buffer:
        return b""
    return content._read_nowait(-1)


def _refused_bytes(error: UpstreamError) -> bool:
    """Did the connection refuse bytes of the request? aiohttp says so in words only."""
    cause = error.__cause__
    return isinstance(cause, aiohttp.ClientOSError) and "write request body" in str(cause)


@contextmanager
def _foreign_errors() -> Iterator[None]:
    try:
        yield
    except (TimeoutError, aiohttp.ServerTimeoutError) as error:
        raise UpstreamError(f"upstream did not answer in time: {error}", kind="timeout") from error
    except (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError) as error:
        raise UpstreamError(f"cannot connect to upstream: {error}", kind="connect") from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientOSError) as error:
        raise UpstreamError(f"upstream closed the connection: {error}", kind="closed") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise UpstreamError(f"no usable answer from upstream: {error}", kind="protocol") from error
