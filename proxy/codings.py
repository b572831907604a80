"""Content codings: whole request bodies with a size cap, and reply bodies as they stream."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

import brotli
import zstandard

KNOWN = ("gzip", "x-gzip", "deflate", "br", "zstd")
MOST_CODINGS = 4
"""More on top of each other are not undone: nobody sends them, and each costs a pass over the body."""

# A bomb of a few bytes can grow to gigabytes in one go: what a step may give is bounded, not what it is given.
_STEP = 256 * 1024
_ZSTD_WINDOW = 1 << 27


class CodingError(ValueError):
    """The body is not what its Content-Encoding says, the coding is unknown, or it grows past the cap."""

    def __init__(self, message: str, *, is_too_large: bool = False) -> None:
        super().__init__(message)
        self.is_too_large = is_too_large


class Decoder(Protocol):
    """Undoes a coding as the bytes come. `is_complete` at the end of a body that did not break off."""

    def feed(self, data: bytes) -> bytes: ...

    @property
    def is_complete(self) -> bool: ...


class _Zlib:
    def __init__(self, coding: str) -> None:
        self._is_deflate = coding == "deflate"
        self._inner = zlib.decompressobj(zlib.MAX_WBITS if self._is_deflate else 16 + zlib.MAX_WBITS)
        self._started = False

    def feed(self, data: bytes) -> bytes:
        return b"".join(self.pieces(data, 0))

    def pieces(self, data: bytes, limit: int) -> Iterator[bytes]:
        """What `data` decodes to, in pieces of at most `limit` bytes; 0 is no limit."""
        if not self._started and data:
            self._started = True
            if self._is_deflate and data[0] & 0x0F != 8:
                self._inner = zlib.decompressobj(-zlib.MAX_WBITS)  # raw deflate, as several servers send it
        while data:
            if self._inner.eof:
                if self._is_deflate:
                    return
                self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)  # a gzip body may have several members
            yield self._inner.decompress(data, limit)
            data = self._inner.unconsumed_tail or self._inner.unused_data

    @property
    def is_complete(self) -> bool:
        return self._inner.eof or not self._started


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()
        self._started = False

    def feed(self, data: bytes) -> bytes:
        self._started = self._started or bool(data)
        return bytes(self._inner.process(data))

    def pieces(self, data: bytes, limit: int) -> Iterator[bytes]:
        self._started = self._started or bool(data)
        yield bytes(self._inner.process(data, output_buffer_limit=limit))
        while not self._inner.can_accept_more_data():
            yield bytes(self._inner.process(b"", output_buffer_limit=limit))

    @property
    def is_complete(self) -> bool:
        return bool(self._inner.is_finished()) or not self._started


class _Zstd:
    """Its decoder takes no limit, so it is fed in steps that can grow to some megabytes only."""

    _FEED = 512

    def __init__(self, cap: int = 0) -> None:
        # A frame of one segment asks for a window as large as its content.
        self._make = zstandard.ZstdDecompressor(max_window_size=max(_ZSTD_WINDOW, cap)).decompressobj
        self._inner = self._make()
        self._started = False

    def feed(self, data: bytes) -> bytes:
        return b"".join(self.pieces(data, 0))

    def pieces(self, data: bytes, limit: int) -> Iterator[bytes]:
        for start in range(0, len(data), self._FEED):
            part = data[start : start + self._FEED]
            while part:
                if self._inner.eof:
                    self._inner = self._make()  # a body may have several frames
                self._started = True
                yield self._inner.decompress(part)
                part = self._inner.unused_data if self._inner.eof else b""

    @property
    def is_complete(self) -> bool:
        return self._inner.eof or not self._started


class _Identity:
    is_complete = True

    def feed(self, data: bytes) -> bytes:
        return data


class _Chain:
    """Codings on top of each other, the last applied first."""

    def __init__(self, inner: list[Decoder]) -> None:
        self._inner = inner

    def feed(self, data: bytes) -> bytes:
        for each in self._inner:
            data = each.feed(data)
        return data

    @property
    def is_complete(self) -> bool:
        return all(each.is_complete for each in self._inner)


def decoder(codings: str) -> Decoder:
    """An incremental decoder for a Content-Encoding header. Raises `CodingError` for what it does not know."""
    found = [_decoder(name) for name in reversed(_names(codings))]
    return found[0] if len(found) == 1 else _Chain(found) if found else _Identity()


def _decoder(name: str) -> Decoder:
    if name in ("gzip", "x-gzip", "deflate"):
        return _Zlib(name)
    return _Brotli() if name == "br" else _Zstd()


def _names(codings: str) -> list[str]:
    names = [name for part in codings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    for name in names:
        if name not in KNOWN:
            raise CodingError(f"content-encoding {name!r} is not one of {', '.join(KNOWN)}")
    if len(names) > MOST_CODINGS:
        raise CodingError(f"more than {MOST_CODINGS} content-encodings")
    return names


def decode_body(data: bytes, codings: str, *, cap: int) -> bytes:
    """Undo every coding of a Content-Encoding header, last applied first; at most `cap` bytes come out."""
    for name in reversed(_names(codings)):
        parts: list[bytes] = []
        size = 0
        try:
            for part in _pieces(data, name, cap):
                size += len(part)
                if size > cap:
                    raise CodingError(f"the body grows past {cap} bytes when decoded", is_too_large=True)
                parts.append(part)
        except STREAM_ERRORS as error:
            raise CodingError(f"the body is not valid {name}: {error}") from error
        data = b"".join(parts)
    return data


def _pieces(data: bytes, name: str, cap: int) -> Iterator[bytes]:
    """The decoded body in bounded pieces. Raises `CodingError` when it breaks off."""
    whole = _Zstd(cap) if name == "zstd" else _Brotli() if name == "br" else _Zlib(name)
    yield from whole.pieces(data, _STEP)
    if not whole.is_complete:
        raise CodingError(f"the {name} body breaks off")


STREAM_ERRORS = (zlib.error, brotli.error, zstandard.ZstdError)
"""What `Decoder.feed` may raise on bytes that are not of its coding."""
