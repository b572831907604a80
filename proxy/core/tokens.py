"""Token estimates: what a request will be billed before the provider says so, and how that learns from bills. Pure.

The count of our own vocabulary is only a measure of size. The ratio of billed to counted tokens
is kept for each upstream and model, so another vocabulary or a hidden template costs one turn of error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PER_MESSAGE = 3
PRIMING = 3
PER_TOOL_LIST = 12
IMAGE_TOKENS = 1_100
"""Flat figure for an image: providers bill 85 to 1,700 by size, and its base64 says nothing about that."""

MIN_RATIO = 0.4
MAX_RATIO = 3.0
WEIGHT = 0.3
"""Share of the newest bill in the average: follows a changed template in a few turns, and no single outlier."""
MIN_SAMPLE = 256
"""Below this the fixed overhead drowns the text, and the ratio would be noise."""

CHARS_PER_TOKEN_LOW = 5
"""English and code run at 3 to 4.5 characters a token: 5 errs towards "not so large": no first turn is folded on it."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Billed tokens per counted token, as an exponential moving average of `samples` bills."""

    ratio: float = 1.0
    samples: int = 0

    def billed(self, counted: float) -> int:
        """What so many counted tokens are billed as."""
        return round(counted * self.ratio)

    def counted(self, billed: float) -> int:
        """Billed tokens in tokens of our own count; rounds down, so a budget is never exceeded by it."""
        return int(billed / self.ratio)

    def updated(self, *, billed: int, counted: int) -> Calibration:
        """With one more bill for a whole request. A bill too small to tell anything changes nothing."""
        if counted < MIN_SAMPLE or billed <= 0:
            return self
        seen = min(MAX_RATIO, max(MIN_RATIO, billed / counted))
        ratio = seen if self.samples == 0 else self.ratio + WEIGHT * (seen - self.ratio)
        return Calibration(ratio, self.samples + 1)


def calibrate(current: Calibration, *, billed: int, counted: int) -> Calibration:
    """`current` with one more bill."""
    return current.updated(billed=billed, counted=counted)


def message_tokens(text: int, *, flat: int = 0) -> int:
    """One message: its counted text, its flat parts (images, audio, files), and the frame around it."""
    return text + flat + PER_MESSAGE


def request_tokens(messages: Iterable[int], *, tools: int = 0, instructions: int = 0) -> int:
    """A whole request from its messages (each as `message_tokens` gives it), tool definitions and instructions."""
    fixed = PRIMING + (tools + PER_TOOL_LIST if tools else 0) + (instructions + PER_MESSAGE if instructions else 0)
    return sum(messages) + fixed


def fast_estimate(chars: int, *, flat: int = 0) -> int:
    """Tokens of so many characters, when nothing was counted. Leans low on purpose."""
    return chars // CHARS_PER_TOKEN_LOW + flat


def estimate_next(
    last_input: int,
    last_output: int,
    new_counted: int,
    calibration: Calibration | None = None,
    *,
    last_reasoning: int = 0,
) -> int:
    """The next request's bill: what the last one was billed, its reply, and what is new.

    `last_reasoning` is the part of the output that does not come back in the next request.
    """
    ratio = calibration or Calibration()
    return last_input + max(0, last_output - last_reasoning) + ratio.billed(new_counted)
