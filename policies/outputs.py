"""How likely a tool result is needed again, by its kind and size. Measured on recorded runs; pure."""

from __future__ import annotations

import re
from typing import Final, Literal

from policies.kinds import kind_of_call
from policies.model import Candidate
from policies.segments import split

OutputKind = Literal["run", "git", "search", "edit", "read", "lookup", "sql", "copy", "other"]

SMALL = 150
MIDDLE = 600
_NEEDED_AGAIN: Final[dict[OutputKind, tuple[float, float, float]]] = {
    "run": (0.05, 0.06, 0.17),
    "git": (0.09, 0.18, 0.30),
    "search": (0.08, 0.30, 0.38),
    "edit": (0.25, 0.22, 0.44),
    "read": (0.15, 0.20, 0.45),
    "lookup": (0.3, 0.5, 0.7),
    "sql": (0.01, 0.01, 0.01),
    "copy": (0.5, 0.5, 0.5),
    "other": (0.05, 0.10, 0.20),
}
"""Share of outputs under 150, under 600, and of 600 tokens and more that a later action drew on."""
_SQL = re.compile(r"sql|database|\bdb\b", re.IGNORECASE)
_LOGS = re.compile(r"\blogs?\b|journal|_logs?\b", re.IGNORECASE)
_REPORTS_ERROR = re.compile(
    r"^E   |(?<![\w.'\"])(?:ERROR|FATAL|CRITICAL|PANIC)(?![\w'\"(]|\s*=)|^(?:\w+\.)*[A-Z]\w*(?:Error|Exception): "
)


def error_segments(candidate: Candidate, most: int = 3) -> tuple[int, ...]:
    """The first and the last of the segments by which a result reports an error."""
    if not any(
        word in candidate.text for word in ("ERROR", "FATAL", "CRITICAL", "PANIC", "Error: ", "Exception: ", "E   ")
    ):
        return ()
    found = [n for n, segment in enumerate(split(candidate.text)) if _REPORTS_ERROR.search(segment.text[:800])]
    return tuple(found if len(found) <= most else [found[0], *found[1 - most :]])


def output_kind(candidate: Candidate) -> OutputKind:
    """What a tool result is, from the tool's name and its call's key argument."""
    tool = candidate.tool
    if "expand" in tool.lower():
        return "copy"
    if _SQL.search(tool):
        return "sql"
    if _LOGS.search(tool):
        return "run"
    match kind_of_call(tool, candidate.source):
        case "read" | "search" | "run" | "edit" | "git" as known:
            return known
        case "api":
            return "lookup"
        case _:
            return "other"


def need_probability(kind: OutputKind, tokens: int) -> float:
    """How likely an output of this kind and size is needed again."""
    small, middle, large = _NEEDED_AGAIN[kind]
    return small if tokens < SMALL else middle if tokens < MIDDLE else large
