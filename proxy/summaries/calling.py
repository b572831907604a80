"""One call to the provider on a summarizer's behalf: with whose key, how long an answer may be, what a failure says."""

from __future__ import annotations

from proxy.core.headers import RawHeaders, header
from proxy.core.redaction import redact
from proxy.errors import UpstreamError
from proxy.summaries.base import Caller, SummarizerError
from proxy.upstream import Upstream

MOST_BYTES = 4 << 20
CREDENTIALS = frozenset(
    {b"authorization", b"x-api-key", b"api-key", b"openai-organization", b"openai-project", b"user-agent"}
)


async def ask(
    upstream: Upstream, url: str, key: str, caller: Caller, content: bytes, *, most_bytes: int = MOST_BYTES
) -> bytes:
    """The body of a good answer. `key` "" is the client's own. Raises `SummarizerError`."""
    headers = _headers(key, caller)
    body = bytearray()
    try:
        response = await upstream.send("POST", url, headers, content)
        try:
            while chunk := await response.read():
                body += chunk
                if len(body) > most_bytes:
                    raise SummarizerError("the summary is endless")
            response.finish()
        finally:
            await response.aclose()
    except UpstreamError as error:
        raise SummarizerError(str(error)) from error
    if response.status != 200:
        wait = header(response.headers, b"retry-after")
        said = redact(bytes(body[:200]).decode("utf-8", "replace"), tuple(_secrets(headers)))
        raise SummarizerError(f"status {response.status}: {said}", retry_after_s=float(wait) if wait.isdigit() else 0.0)
    return bytes(body)


def _headers(key: str, caller: Caller) -> RawHeaders:
    own = [(b"content-type", b"application/json"), (b"accept-encoding", b"identity")]
    if key:
        return [*own, (b"authorization", f"Bearer {key}".encode())]
    return [*own, *((name, value) for name, value in caller.headers if name.lower() in CREDENTIALS)]


def _secrets(headers: RawHeaders) -> list[str]:
    return [
        value.decode("latin-1").removeprefix("Bearer ")
        for name, value in headers
        if b"key" in name or name == b"authorization"
    ]
