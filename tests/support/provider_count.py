"""Tokens of chat messages as a provider counts them: the o200k vocabulary, whole texts, the template around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.tokenizer import packaged_encoding

PER_MESSAGE = 3
PRIMING = 3
PER_CALL = 7


def provider_count(messages: Sequence[Mapping[str, Any]]) -> int:
    """What a request with these messages is billed as input, tools apart."""
    encoding = packaged_encoding()
    assert encoding is not None

    def count(text: object) -> int:
        return len(encoding.encode_ordinary(text)) if isinstance(text, str) else 0

    total = PRIMING
    for message in messages:
        total += PER_MESSAGE + count(message["role"]) + count(message.get("content"))
        for call in message.get("tool_calls") or ():
            total += PER_CALL + count(call["function"]["name"]) + count(call["function"]["arguments"])
    return total
