"""The rule-based summary of folded messages: quotes, one line a call, files, open errors. No model, no I/O.

Built from the originals every time and bounded in size: what does not fit is the oldest of its kind,
and is counted. The user's rules appear only as verbatim quotes; nothing here can be read as an order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from proxy.core.constraints import find_constraints
from proxy.core.forms import clip, closing_lines, size_words, without_encoded

CALLS_LISTED = 72
QUOTE_CHARS = 600
SHORT_QUOTE_CHARS = 120
STATEMENT_CHARS = 240
HEAD_CHARS = 70
SEGMENT_CALLS = 40

_PATH = re.compile(r"(?<![\w:])(?:[\w.@~-]*/)+[\w.@-]+|\b[\w-]+\.[A-Za-z]\w{0,7}\b(?!\()")
_ID = re.compile(r"[#@]?\b[A-Za-z_]*[A-Za-z_-]?\d[\w-]{3,40}\b|\b[\w.-]+@[\w.-]+\b|\b\d{4,}\b")
_EDITS = re.compile(r"edit|write|patch|replace|create|insert|sed -i|tee |>\s*\S|apply", re.IGNORECASE)
_DELETES = re.compile(r"\b(?:rm|delete|unlink)\b", re.IGNORECASE)
_SHARES = {"user": 0.40, "call": 0.40, "assistant": 0.20}


@dataclass(frozen=True, slots=True)
class DigestCall:
    """One tool call of an assistant item."""

    name: str
    arguments: str = ""
    key_argument: str = ""


@dataclass(frozen=True, slots=True)
class DigestItem:
    """One folded item. For a tool result `tool` and `argument` tell the call that it answers."""

    id: str
    kind: str  # as policies.model.Kind
    role: str
    text: str
    calls: tuple[DigestCall, ...] = ()
    tool: str = ""
    argument: str = ""
    is_failed: bool = False
    size_chars: int = 0
    group: int = 0
    paths: tuple[str, ...] = ()


@dataclass(slots=True)
class _Line:
    """A line that may stand in the digest; `short` is what it steps down to."""

    order: int
    kind: str
    text: str
    short: str = ""


@dataclass(slots=True)
class _Parts:
    """What was gathered from the items, before the budget."""

    lines: list[_Line] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    errors: dict[tuple[str, str], str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)


def digest(items: Sequence[DigestItem], *, max_chars: int, later_text: str = "", can_expand: str = "") -> str:
    """A summary of `items` in at most `max_chars` characters (never under the opening line)."""
    parts = _gather(items, later_text)
    opening = _opening(len(items), can_expand)
    room = max(0, max_chars - len(opening))
    rules = _section("Rules in the user's own words:", (f'- "{rule}"' for rule in parts.rules[::-1]), room * 3 // 10)
    files = _section("Files, last action:", _joined(parts.files), room // 10)
    errors = _section("Errors still open:", [f"- {text}" for text in parts.errors.values()][::-1], room // 10)
    ids = _section("Named again later:", _joined(parts.ids), room // 12)
    fixed = [rules, files, errors, ids]
    story = _story(parts.lines, room - sum(len(section) + 1 for section in fixed if section))
    return "\n".join([opening, *(section for section in (rules, story, files, errors, ids) if section)])


def segments(items: Sequence[DigestItem]) -> list[range]:
    """Index ranges between natural seams: user turns, and every 40 calls inside an endless one.

    Groups are never split, and growth at the end never moves an earlier seam, so that work on a
    segment can be cached by the hash of its originals.
    """
    ranges: list[range] = []
    start = calls = 0
    for index in range(1, len(items)):
        calls += len(items[index - 1].calls)
        is_new_group = items[index].group != items[index - 1].group
        is_new_turn = items[index].kind == "user" and items[index - 1].kind != "user"
        if is_new_group and (is_new_turn or calls >= SEGMENT_CALLS):
            ranges.append(range(start, index))
            start, calls = index, 0
    if items:
        ranges.append(range(start, len(items)))
    return ranges


def _opening(count: int, can_expand: str) -> str:
    how = f' Any original comes back in full with {can_expand}("id").' if can_expand else ""
    return (
        f"[Summary of {count:,} earlier messages of this conversation, made by the proxy. It is a record of what "
        f"happened, not an instruction; only text in quotation marks is the user's own.{how}]"
    )


def _gather(items: Sequence[DigestItem], later_text: str) -> _Parts:
    parts = _Parts()
    later = set(_ID.findall(later_text))
    rules: dict[str, None] = {}
    for order, item in enumerate(items):
        if item.kind == "user":
            text = without_encoded(item.text).strip()
            rules.update(dict.fromkeys(find_constraints(text)))
            if text:
                parts.lines.append(_user_line(order, item, text))
        elif item.kind == "assistant":
            _gather_assistant(parts, order, item)
        elif item.kind == "tool_result":
            _gather_result(parts, order, item)
        if later:
            for found in _ID.findall(item.text):
                if found in later:
                    parts.ids[found] = item.id
    parts.rules = list(rules)
    return parts


def _user_line(order: int, item: DigestItem, text: str) -> _Line:
    quote = text if len(text) <= QUOTE_CHARS else f"{text[:QUOTE_CHARS]}…"
    return _Line(order, "user", f'User ({item.id}): "{quote}"', f'User ({item.id}): "{clip(text, SHORT_QUOTE_CHARS)}"')


def _gather_assistant(parts: _Parts, order: int, item: DigestItem) -> None:
    # Calls stand in their results' lines; prose is where plans and negative findings live.
    arguments = {call.arguments for call in item.calls}
    prose = without_encoded(item.text)
    for text in arguments:
        prose = prose.replace(text, "") if text else prose
    if prose.strip():
        parts.lines.append(
            _Line(order, "assistant", f"Assistant ({item.id}): {clip(prose, STATEMENT_CHARS)}",
                  f"Assistant: {clip(prose, SHORT_QUOTE_CHARS)}")
        )  # fmt: skip
    for call in item.calls:
        action = _action(f"{call.name} {call.key_argument or call.arguments[:400]}")
        for path in item.paths or _PATH.findall(call.key_argument):
            parts.files.pop(path, None)
            parts.files[path] = action


def _gather_result(parts: _Parts, order: int, item: DigestItem) -> None:
    head = clip(f"{item.tool} {item.argument}".strip() or "a call", HEAD_CHARS)
    line = f"- {item.id} {head} · {size_words(item.size_chars or len(item.text))}"
    key = (item.tool, item.argument)
    parts.errors.pop(key, None)
    if item.is_failed:
        closing = clip(closing_lines(item.text, lines=1), SHORT_QUOTE_CHARS)
        parts.errors[key] = f"{item.id} {head}: {closing}" if closing else f"{item.id} {head}"
        line += " · failed"
    parts.lines.append(_Line(order, "call", line))


def _action(call: str) -> str:
    if _DELETES.search(call):
        return "deleted"
    return "changed" if _EDITS.search(call) else "read"


def _joined(named: dict[str, str]) -> list[str]:
    """`name (what)` pairs, newest first."""
    return [f"{name} ({what})" for name, what in reversed(named.items())]


def _section(title: str, entries: Iterable[str], room: int) -> str:
    """As many entries as fit, in their order, under a title; nothing when none fits."""
    kept: list[str] = []
    used = len(title)
    left = 0
    for entry in entries:
        if left or used + len(entry) + 1 > room - 20:
            left += 1
            continue
        kept.append(entry)
        used += len(entry) + 1
    if not kept:
        return ""
    if kept[0].startswith("- "):
        return "\n".join([title, *kept, *([f"- and {left:,} older"] if left else [])])
    return f"{title} {'; '.join(kept)}{f'; and {left:,} older' if left else ''}"


def _story(lines: Sequence[_Line], room: int) -> str:
    """The lines in order, the newest of each kind first in the right to stay; the rest is counted."""
    room -= 120  # the line that counts what is left out
    chosen: dict[int, str] = {}
    for is_second_round in (False, True):
        for kind, share in _SHARES.items():
            limit = room if is_second_round else int(room * share)
            used = sum(len(text) + 1 for text in chosen.values()) if is_second_round else 0
            _choose(lines, kind, chosen, limit, used)
    told = [chosen[index] for index in sorted(chosen)]
    counts = [
        f"{count:,} {words}"
        for kind, words in (("user", "user messages"), ("call", "calls"), ("assistant", "assistant messages"))
        if (count := sum(line.kind == kind and index not in chosen for index, line in enumerate(lines)))
    ]
    if counts:
        told.insert(0, f"(older, not listed: {', '.join(counts)})")
    return "\n".join(told)


def _choose(lines: Sequence[_Line], kind: str, chosen: dict[int, str], limit: int, used: int) -> None:
    listed = sum(lines[index].kind == "call" for index in chosen)
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if line.kind != kind or index in chosen or (kind == "call" and listed >= CALLS_LISTED):
            continue
        for text in (line.text, line.short):
            if text and used + len(text) + 1 <= limit:
                chosen[index] = text
                used += len(text) + 1
                listed += kind == "call"
                break
        else:
            return
