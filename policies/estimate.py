"""Estimates the tokens of short pieces of text without a vocabulary; a whole item's exact count comes from outside."""

from __future__ import annotations

import re

_PART = re.compile(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]+|\n+|[ \t]{2,}")
_WORD = 7
"""Letters of one script that make one token; rarer words take more, common ones of any length one."""


def estimate(text: str) -> int:
    """About as many tokens as an o200k vocabulary makes of `text`, rather too many than too few."""
    tokens = 0
    for part in _PART.findall(text):
        first = part[0]
        length = len(part)
        if first.isascii():
            if first.isalpha():
                tokens += 1 + (length - 1) // _WORD
            elif first.isdigit():
                tokens += 1 + (length - 1) // 3
            elif first in " \t\n":
                tokens += 1
            else:
                tokens += 1 + (length - 1) // 3
        else:
            tokens += length
    return tokens
