"""Takes keys out of text that is about to be written. Pure; prefers one mask too many to one too few."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"

_SECRET_NAME = re.compile(
    r"(?i)^(?:proxy[-_])?authorization$|api[-_]?key|^key$|(?:^|[-_])(?:key|secret|token|password|cookie)$|^client[-_]keys$"
)
_IN_TEXT: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), rf"\1 {MASK}"),
    # The shapes of well-known providers' keys, wherever they stand.
    (re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi|pplx|ghp|gho|r8)[-_][\w*-]{6,}"), MASK),
    (re.compile(r"\bAIza[\w-]{16,}"), MASK),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), MASK),
    # Named in a query, a header or JSON.
    (re.compile(r"(?i)([?&](?:[\w-]*key|[\w-]*token|sig|signature|code|password)=)[^&\s\"'#]+"), rf"\1{MASK}"),
    (
        re.compile(r"(?i)\b((?:x-)?(?:goog-)?api[-_]?key|authorization)([\"']?\s*[:=]\s*[\"']?)[^\s\"',}&]+"),
        rf"\1\2{MASK}",
    ),
    (re.compile(r"(?i)(api key[^:\n]{0,24}:\s*)[^\s\"',}]+"), rf"\1{MASK}"),
    # Credentials of a URL.
    (re.compile(r"(?<=://)[^/\s@\"']+@"), f"{MASK}@"),
)


def is_secret_name(name: str) -> bool:
    """True if a field of that name may hold a key, whatever its value looks like."""
    return _SECRET_NAME.search(name) is not None


def redact(text: str, secrets: Iterable[str] = (), *, mask: str = MASK) -> str:
    """`text` without `secrets` and without anything that looks like a key; `mask` stands in their place."""
    for secret in secrets:
        text = text.replace(secret, mask)
    for pattern, replacement in _IN_TEXT:
        text = pattern.sub(replacement.replace(MASK, mask), text)
    return text
