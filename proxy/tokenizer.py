"""Counts tokens with the packaged o200k vocabulary: offline, lazily loaded, large texts off the event loop.

Other vocabularies are estimated with it and calibrated by billed usage. A count differs from the
official one by at most about one token for every CHUNK_CHARS characters, because long texts are
counted piece by piece; shorter ones are exact. Texts of more than a million characters are estimated
from samples.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import importlib
import importlib.resources
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, ParamSpec, Protocol, TypeVar

import msgspec
import zstandard

P = ParamSpec("P")
T = TypeVar("T")

CHUNK_CHARS = 2_048
"""Splitting and merging cost more than linear time on long runs of one kind; pieces of this size do not."""
INLINE_CHARS = 20_000
"""Up to this much is counted on the event loop, in about a millisecond."""
SAMPLED_FROM_CHARS = 1_000_000
"""A longer text, some 250,000 tokens, is estimated from evenly spaced pieces: it would take seconds to count."""
SAMPLED_CHARS = 300_000
SAMPLED_LOW = 0.97
"""The estimate leans low, so that nothing is compacted for it; what the provider bills corrects it."""
CACHED_FROM_CHARS = 256
"""Shorter texts are counted faster than they are hashed and looked up."""

_SPLIT = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
_SPECIAL = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
_TOKENS = 199_998
_TOKEN_LIST = msgspec.msgpack.Decoder(list[bytes])


class Encoding(Protocol):
    """What we use of a tiktoken encoding."""

    def encode_ordinary(self, text: str) -> list[int]: ...


@functools.cache
def packaged_encoding() -> Encoding | None:
    """The o200k encoding from the wheel, or None where it cannot be built: then counts are rough."""
    try:
        tiktoken: Any = importlib.import_module("tiktoken")
        packed = importlib.resources.files("proxy").joinpath("data", "o200k.msgpack.zst").read_bytes()
        tokens = _TOKEN_LIST.decode(zstandard.ZstdDecompressor().decompress(packed))
    except (ImportError, OSError, zstandard.ZstdError, msgspec.DecodeError):
        return None
    ranks = dict(zip(tokens, range(len(tokens)), strict=True))  # they come in rank order
    if len(ranks) != _TOKENS:
        return None
    encoding: Encoding = tiktoken.Encoding("o200k_base", pat_str=_SPLIT, mergeable_ranks=ranks, special_tokens=_SPECIAL)
    return encoding


class Tokenizer:
    """Counts texts, remembers long ones by hash, and never raises on what a text holds.

    Safe to call from any thread. `load` builds the vocabulary ahead of the first request; without it the
    first count pays the quarter of a second.
    """

    def __init__(self, *, cache_size: int = 50_000, encoding: Encoding | None = None) -> None:
        self._encoding = encoding
        self._is_loaded = encoding is not None
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._cache_size = cache_size
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer")

    @property
    def is_exact(self) -> bool:
        """Whether the vocabulary is there; else a count is UTF-8 bytes / 4."""
        return self._vocabulary() is not None

    async def load(self) -> None:
        """Build the vocabulary in the worker thread."""
        await self.run(self._vocabulary)

    def close(self) -> None:
        """Let the worker thread end. Counting on the caller's thread still works."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def count(self, text: str) -> int:
        """Tokens of one text, counted here and now."""
        if len(text) < CACHED_FROM_CHARS:
            return self._encode(text)
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self.cached(key)
        if known is None:
            known = self._encode(text)
            self.remember(key, known)
        return known

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [self.count(text) for text in texts]

    def is_quick(self, texts: Sequence[str]) -> bool:
        """May these be counted on the event loop?"""
        return self._is_loaded and sum(map(len, texts)) <= INLINE_CHARS

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do work that counts in the worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, partial(work, *args, **kwargs))

    async def count_async(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text; off the event loop when that could hold it."""
        return self.count_many(texts) if self.is_quick(texts) else await self.run(self.count_many, texts)

    def cached(self, key: bytes) -> int | None:
        """The count remembered under a 16-byte hash."""
        with self._lock:
            known = self._counts.get(key)
            if known is not None:
                self._counts.move_to_end(key)
        return known

    def remember(self, key: bytes, tokens: int) -> None:
        """Keep a count under a 16-byte hash; the least used goes when there are too many."""
        with self._lock:
            self._counts[key] = tokens
            self._counts.move_to_end(key)
            while len(self._counts) > self._cache_size:
                self._counts.popitem(last=False)

    def _vocabulary(self) -> Encoding | None:
        if not self._is_loaded:
            self._encoding = packaged_encoding()
            self._is_loaded = True
        return self._encoding

    def _encode(self, text: str) -> int:
        encoding = self._vocabulary()
        if encoding is None:
            return -(-len(text.encode("utf-8", "surrogatepass")) // 4)
        if len(text) <= SAMPLED_FROM_CHARS:
            return sum([len(encoding.encode_ordinary(chunk)) for chunk in chunks(text)])
        step = len(text) * CHUNK_CHARS // SAMPLED_CHARS
        samples = [text[at : at + CHUNK_CHARS] for at in range(0, len(text) - CHUNK_CHARS, step)]
        counted = sum([len(encoding.encode_ordinary(sample)) for sample in samples])
        return int(SAMPLED_LOW * counted * len(text) / sum(map(len, samples)))


def chunks(text: str) -> Iterator[str]:
    """The text in pieces of at most CHUNK_CHARS, cut where the pattern cuts anyway if there is such a place."""
    at = 0
    while len(text) - at > CHUNK_CHARS:
        end = at + CHUNK_CHARS
        least = at + CHUNK_CHARS // 2
        line = text.rfind("\n", least, end)
        space = text.rfind(" ", least, end) if line < 0 else -1
        end = line + 1 if line >= 0 else space if space >= 0 else end
        yield text[at:end]
        at = end
    yield text[at:] if at else text
