"""Does a tool's output report a failure? A guess from its text that leans to no. Pure."""

from __future__ import annotations

import re

_EDGE = 2000
"""Only the first and the last characters are read: a verdict stands at an end, and files quote errors inside."""

_START = re.compile(
    r"""\s*(?:
        (?:\w+\.)*\w*(?:Error|Exception)\b(?:\s*:|\s*$) |
        (?:fatal|error|fehler|panic)(?:\[\w+\])?\s*: |
        (?:Error|ERROR|FAILED|Failed|Command\ failed|Tool\ (?:call\ )?failed)\b\s*(?::|\(|-|executing|running|$) |
        unsupported\ call: |
        Traceback\ \(most\ recent\ call\ last\):
    )""",
    re.VERBOSE,
)
_EXIT = re.compile(
    r"""(?:
        \bexit(?:ed)?\s*(?:with\s+)?[\s_-]?(?:code|status)?["']?\s*[:=]?\s* |
        \breturn[\s_]?code["']?\s*[:=]?\s* |
        \bstatus\s+code\s*[:=]\s*
    )(?P<code>-?\d{1,10})\b""",
    re.VERBOSE | re.IGNORECASE,
)
_LAST_LINE = re.compile(
    r"""(?:
        ^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?::.*)?$ |
        :\ (?:command\ not\ found|No\ such\ file\ or\ directory|Permission\ denied)$ |
        ^=+.*\b\d+\ (?:failed|error).*=+$ |
        ^[1-9]\d*\ failed\b |
        ^make(?:\[\d+\])?:\ \*\*\*
    )""",
    re.VERBOSE,
)
_FLAG = re.compile(r'"(?:is_?error|isError)"\s*:\s*true|"(?:success|ok)"\s*:\s*false|"error"\s*:\s*"')


def looks_failed(text: str) -> bool:
    """True for a leading error line, a traceback at the end, a nonzero exit code or an error flag."""
    head = text[:_EDGE]
    if _START.match(head):
        return True
    tail = text[-_EDGE:]
    if head.lstrip()[:1] in ("{", "[") and _FLAG.search(head):
        return True
    if _exits_nonzero(head[:200]) or (len(text) > 200 and _exits_nonzero(tail[-200:])):
        return True
    return _LAST_LINE.search(tail.rstrip().rpartition("\n")[2]) is not None


def _exits_nonzero(text: str) -> bool:
    codes = [int(match["code"]) for match in _EXIT.finditer(text)]
    return bool(codes) and codes[-1] != 0
