"""The outline of code and of diffs: lines that open something, files and hunks with what they change. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from proxy.core.loglines import LONG_LINE, fill, short_line, with_gaps
from proxy.core.texts import WORD

MIN_OPENERS = 3
OPENER_SHARE = 0.01
MIN_CODE_LINES = 20
_NUMBER = r"(?:\s*\d+\s*(?:[:|→\t]|\s{2})\s?)?"
_OPENER = re.compile(
    _NUMBER + r"\s*(?:export\s+|default\s+|public\s+|private\s+|protected\s+|internal\s+|static\s+|abstract\s+|final\s+"
    r"|async\s+|pub(?:\([\w:]+\))?\s+|unsafe\s+|inline\s+|virtual\s+)*"
    r"(?:def|class|function|func|fn|interface|struct|enum|trait|impl|type|module|namespace|record|protocol|object)\s+[\w(<*]"
)
_DECORATOR = re.compile(_NUMBER + r"\s*@[A-Za-z_]")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_FILE = re.compile(
    r"(?:diff --git a/.* b/(?P<git>\S+)|\+\+\+ (?:b/)?(?P<plus>\S+)|\*\*\* (?:Add|Update|Delete) File: (?P<patch>.+))"
)
_DIFF = re.compile(r"^(?:diff --git |@@ -\d|\*\*\* (?:Add|Update|Delete) File: )", re.MULTILINE)


def is_diff(text: str) -> bool:
    """Does the text hold a diff or a patch?"""
    return _DIFF.search(text) is not None


def code_outline(lines: Sequence[str], terms: Container[str], room: int) -> list[int]:
    """Indices of the lines that open a definition, and of those with one of `terms`; empty when this is no code."""
    openers = [index for index, line in enumerate(lines) if _OPENER.match(line[:LONG_LINE])]
    if len(lines) < MIN_CODE_LINES or len(openers) < max(MIN_OPENERS, OPENER_SHARE * len(lines)):
        return []
    named = [i for i, line in enumerate(lines) if any(word in terms for word in WORD.findall(line))] if terms else []
    # Outer definitions before inner ones: a wide file still shows what is in it.
    openers.sort(key=lambda index: (_depth(lines[index]), index))
    return fill(lines, ((openers, room * 3 // 4), (named, room), (openers, room)))


def diff_outline(text: str, terms: Container[str], room: int) -> str:
    """Each file and each hunk with how many lines it adds and removes; changed lines where a term names them."""
    hunks = _hunks(text.split("\n"))
    out: list[str] = []
    used = 0
    left = 0
    for hunk in hunks:
        shown = [line for line in hunk.changes if any(word in terms for word in WORD.findall(line))] if terms else []
        head = f"{short_line(hunk.head)}  (+{hunk.added} −{hunk.removed})"
        block = [head, *map(short_line, shown), *(["…"] if len(shown) < len(hunk.changes) else [])]
        size = sum(len(line) + 1 for line in block)
        if left or used + size > room:
            left += 1
            continue
        out += block
        used += size
    if left:
        out.append(f"… {left:,} more hunk{'' if left == 1 else 's'} omitted")
    return "\n".join(out)


def outline_text(lines: Sequence[str], chosen: Sequence[int]) -> str:
    """The chosen lines of code with what is missing between them."""
    return with_gaps(lines, chosen)


@dataclass(slots=True)
class _Hunk:
    """A hunk, or what stands of a file before its first one."""

    head: str
    changes: list[str]
    added: int = 0
    removed: int = 0


def _hunks(lines: Sequence[str]) -> list[_Hunk]:
    hunks: list[_Hunk] = []
    named = ""
    for line in lines:
        file = _FILE.match(line)
        if file is not None:
            name = file["git"] or file["plus"] or file["patch"]
            if name != named:
                hunks.append(_Hunk(line, []))
                named = name
        elif _HUNK.match(line) or line.startswith("@@"):
            hunks.append(_Hunk(line, []))
        elif hunks and line[:1] in "+-" and line and not line.startswith("--- "):
            hunk = hunks[-1]
            hunk.changes.append(line)
            hunk.added += line[0] == "+"
            hunk.removed += line[0] == "-"
    return hunks


def _depth(line: str) -> int:
    bare = re.sub(r"^\s*\d+\s*[:|→\t]\s?", "", line)
    return len(bare) - len(bare.lstrip())
