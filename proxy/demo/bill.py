"""The provider's till: a prompt cache and a price list with a cliff. Pure; a model of a bill, not a real one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from proxy.core.model import Usage

CACHE_LEAST = 1024
CACHE_STEP = 128


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars per million tokens. Beyond `cliff` input tokens the whole request costs more.

    `cached_share` and `write_share` are relative to the input price; 1.0 means that writes are free.
    """

    input: float = 2.0
    output: float = 10.0
    cached_share: float = 0.1
    write_share: float = 1.0
    cliff: int | None = None
    cliff_input: float = 2.0
    cliff_output: float = 1.5


def cost(rates: Rates, usage: Usage) -> float:
    """What one request costs. Cached tokens count towards the cliff."""
    is_above = rates.cliff is not None and usage.input > rates.cliff
    fresh = usage.input - usage.cached
    input_tokens = fresh * rates.write_share + usage.cached * rates.cached_share
    input_price = rates.input * (rates.cliff_input if is_above else 1.0)
    output_price = rates.output * (rates.cliff_output if is_above else 1.0)
    return (input_tokens * input_price + usage.output * output_price) / 1e6


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a rendered prompt (the tools, or one message) with its tokens."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Match:
    """How much of a prompt came from the cache, and what became of the prompt before (see `core.caching`)."""

    cached: int
    is_break: bool
    is_tail_change: bool = False


@dataclass(slots=True)
class PromptCache:
    """Recent prompts of one key. A prompt is read from cache up to its longest common prefix with any of them."""

    memory: int = 6
    _read: int = 0  # tokens that the last prompt shared with the one before it
    _recent: deque[tuple[Segment, ...]] = field(default_factory=deque)

    def match(self, prompt: Sequence[Segment]) -> Match:
        """Look the prompt up, then remember it."""
        shared = [common_tokens(prompt, other) for other in self._recent]
        whole = max(shared, default=0)
        cached = whole // CACHE_STEP * CACHE_STEP if whole >= CACHE_LEAST else 0
        kept = shared[-1] if shared else 0
        is_break = kept < self._read
        is_changed = bool(shared) and kept < sum(segment.tokens for segment in self._recent[-1])
        self._read = kept
        self._recent.append(tuple(prompt))
        while len(self._recent) > self.memory:
            self._recent.popleft()
        return Match(cached, is_break, is_changed and not is_break)


def common_tokens(one: Sequence[Segment], other: Sequence[Segment]) -> int:
    """Tokens of the longest common prefix; inside the first unlike segment in proportion to its characters."""
    total = 0
    for a, b in zip(one, other, strict=False):
        if a.text != b.text:
            return total + a.tokens * _common_length(a.text, b.text) // max(len(a.text), 1)
        total += a.tokens
    return total


def _common_length(a: str, b: str) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:  # bisection: comparing slices is faster than walking characters
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
