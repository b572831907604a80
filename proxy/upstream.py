"""The HTTP client towards the provider. Never retries, never follows a redirect; foreign errors become ours."""

from __future__ import annotations

import io
import ipaddress
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
import yarl
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream

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


class EngineTransport(AiohttpTransport):
    """httpx's transport interface over aiohttp's engine.

    Differs from the library's own transport in that the URL goes out exactly as given: its
    percent-encoding is not normalised.
    """

    def __init__(self, options: UpstreamOptions) -> None:
        super().__init__(verify=options.verify_tls, trust_env=False)
        self._options = options

    def get_client(self) -> aiohttp.ClientSession:
        options = self._options
        context: ssl.SSLContext | bool = self.ssl_context
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

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not isinstance(self.client, aiohttp.ClientSession):
            self.client = self.get_client()
        try:
            content = request.content
            # A large body goes out in pieces, so that no single write holds the event loop.
            data: bytes | io.BytesIO | AsyncIterator[bytes] | None = content or None
            if len(content) > _ONE_WRITE:
                data = request.extensions["pieces"] = _Pieces(content)
        except httpx.RequestNotRead:
            data = request.stream.__aiter__()  # type: ignore[union-attr]
        url = yarl.URL(request.extensions["raw_url"], encoded=True)
        response = await self.client.request(
            request.method,
            url,
            headers=[(n.decode("latin-1"), _text(v)) for n, v in request.extensions["raw_headers"]],
            data=data,
            allow_redirects=False,
            proxy=proxy_for(url) if self._options.trust_env else None,
        )
        if not 200 <= response.status <= 599:
            response.close()
            raise ValueError(f"status {response.status}")
        return httpx.Response(
            response.status,
            headers=response.raw_headers,
            stream=AiohttpResponseStream(response),
            extensions={"reason_phrase": (response.reason or "").encode("latin-1", "replace"), "engine": response},
        )


class _Pieces(io.BytesIO):
    """A large body that knows whether all of it was taken."""

    is_taken = False

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self.is_taken = self.is_taken or self.tell() == len(self.getbuffer())
        return piece


class UpstreamResponse:
    """A reply whose body has not been read yet. `aclose` is safe at any time and twice."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._engine: aiohttp.ClientResponse | None = response.extensions.get("engine")
        self._iterator: AsyncIterator[bytes] | None = None
        self.status = response.status_code
        self.headers: RawHeaders = list(response.headers.raw)

    async def read(self) -> bytes:
        """The next body bytes as they arrive, still content-encoded; b"" at the end.

        May be cancelled without losing bytes. Raises `UpstreamError` when the body breaks off.
        """
        with _foreign_errors():
            if self._engine is not None:
                return _arrived(self._engine.content) or await self._engine.content.readany()
            if self._iterator is None:
                self._iterator = self._response.aiter_raw()
            return await anext(self._iterator, b"")

    async def aclose(self) -> None:
        if self._engine is not None:
            # Not release(): a reply that was not read to its end must not be drained and reused.
            self._engine.close()
            return
        await self._response.aclose()

    def finish(self) -> None:
        """The body was read to its end: the connection may be used again."""
        if self._engine is not None:
            self._engine.release()


class Upstream:
    """Sends requests to the configured provider and nowhere else."""

    def __init__(self, options: UpstreamOptions, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._transport = transport or EngineTransport(options)

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
        request = httpx.Request(
            method,
            "http://upstream",
            content=content,
            extensions={"raw_url": url, "raw_headers": headers},
        )
        try:
            with _foreign_errors():
                return UpstreamResponse(await self._transport.handle_async_request(request))
        except UpstreamError as error:
            pieces = request.extensions.get("pieces")
            error.is_unsent = _refused_bytes(error) or (isinstance(pieces, _Pieces) and not pieces.is_taken)
            raise

    async def aclose(self) -> None:
        await self._transport.aclose()


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
    except httpx.TransportError as error:
        raise UpstreamError(f"no usable answer from upstream: {error}", kind="protocol") from error
