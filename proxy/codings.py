"""Content codings: whole request bodies with a size cap, and reply bodies as they stream."""

from __future__ import annotations

import zlib
from typing import Protocol

import brotli
import zstandard

KNOWN = ("gzip", "x-gzip", "deflate", "br", "zstd")
# At most this much is decoded in one go: what a bomb of 4 KB can grow to is bounded by its coding.
_STEP = 4 * 1024


class CodingError(ValueError):
    """The body is not what its Content-Encoding says, the coding is unknown, or it grows past the cap."""

    def __init__(self, message: str, *, is_too_large: bool = False) -> None:
        super().__init__(message)
        self.is_too_large = is_too_large


class Decoder(Protocol):
    def feed(self, data: bytes) -> bytes: ...


class _Zlib:
    def __init__(self, coding: str) -> None:
        self._is_deflate = coding == "deflate"
        self._inner = zlib.decompressobj(zlib.MAX_WBITS if self._is_deflate else 16 + zlib.MAX_WBITS)
        self._started = False

    def feed(self, data: bytes) -> bytes:
        if not self._started and self._is_deflate and data and (data[0] & 0x0F) != 8:
            self._inner = zlib.decompressobj(-zlib.MAX_WBITS)  # raw deflate, as several servers send it
        self._started = self._started or bool(data)
        out = self._inner.decompress(data)
        while self._inner.eof and self._inner.unused_data and not self._is_deflate:
            rest = self._inner.unused_data  # a gzip body may have several members
            self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)
            out += self._inner.decompress(rest)
        return out


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    def feed(self, data: bytes) -> bytes:
        return bytes(self._inner.process(data))


class _Zstd:
    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)

    def feed(self, data: bytes) -> bytes:
        return self._inner.decompress(data)


class _Identity:
    def feed(self, data: bytes) -> bytes:
        return data


def decoder(coding: str) -> Decoder:
    """An incremental decoder for one coding. Raises `CodingError` for an unknown one."""
    name = coding.strip().lower()
    if name in ("", "identity"):
        return _Identity()
    if name in ("gzip", "x-gzip", "deflate"):
        return _Zlib(name)
    if name == "br":
        return _Brotli()
    if name == "zstd":
        return _Zstd()
    raise CodingError(f"content-encoding {coding!r} is not one of {', '.join(KNOWN)}")


def decode_body(data: bytes, codings: str, *, cap: int) -> bytes:
    """Undo every coding of a Content-Encoding header, last applied first; at most `cap` bytes come out."""
    for coding in reversed([part for part in codings.split(",") if part.strip()]):
        data = _decode_one(data, coding, cap)
    return data


def _decode_one(data: bytes, coding: str, cap: int) -> bytes:
    inner = decoder(coding)
    parts: list[bytes] = []
    size = 0
    # Fed in steps, so that a small bomb is noticed before it has filled the memory.
    for start in range(0, len(data), _STEP if len(data) > _STEP else max(1, len(data))):
        try:
            part = inner.feed(data[start : start + _STEP])
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise CodingError(f"the body is not valid {coding.strip()}: {error}") from error
        size += len(part)
        if size > cap:
            raise CodingError(f"the body grows past {cap} bytes when decoded", is_too_large=True)
        parts.append(part)
    return b"".join(parts)


STREAM_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError)
"""What `Decoder.feed` may raise on bytes that are not of its coding."""
