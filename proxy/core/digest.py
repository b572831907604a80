"""The rule-based summary of folded messages: quotes, one line a call, files, open errors. No model, no I/O.

Made in two steps: `note` gathers what is worth telling of one segment, once; `compose` fits the notes
of all segments into a bounded text. What does not fit steps down: the oldest of its kind first, to a
short line, then to a count. The user's rules appear only as verbatim quotes; nothing here can be read as an order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from policies.kinds import kind_of_call
from proxy.core.constraints import find_constraints, is_prohibition
from proxy.core.loglines import closing_lines
from proxy.core.texts import clip, size_words, without_encoded

RULES_TITLE = "Rules in the user's own words:"
COUNTS_CHARS = 120
"""The line that counts what is left out."""
CALLS_LISTED = 72
QUOTE_CHARS = 600
SHORT_QUOTE_CHARS = 120
STATEMENT_CHARS = 240
HEAD_CHARS = 70
RESULT_CHARS = 60
STEPS_NAMED = 12
"""Of a finished subtask's steps the newest are named."""
IDS_NOTED = 400
"""Ids noted of one segment: those named again later are looked up among them."""
ID_SCAN_CHARS = 200_000

_PATH = re.compile(r"(?<![\w:])(?:[\w.@~-]*/)+[\w.@-]+|\b[\w-]+\.[A-Za-z]\w{0,7}\b(?!\()")
_QUOTED_DIGEST = re.compile(
    r"\[Summary of [\d,]+ earlier messages of this conversation, made by the proxy\..*?(?=\n[ \t]*\n|\Z)", re.DOTALL
)
"""What a client sends back of ours, as its user's text: nothing in it is the user's own. It ends with a blank line."""
_ID = re.compile(r"[#@]?\b[A-Za-z_]{0,40}[A-Za-z_-]?\d[\w-]{3,40}\b|\b[\w.-]{1,64}@[\w.-]{1,64}\b|\b\d{4,}\b")
_EDITS = re.compile(r"edit|write|patch|replace|create|insert|sed -i|tee |>\s*\S|apply", re.IGNORECASE)
_DELETES = re.compile(r"\b(?:rm|delete|unlink)\b", re.IGNORECASE)
_SHARES = {"user": 0.40, "call": 0.40, "assistant": 0.20}
_SHARES_TOLD = {"told": 0.55, "user": 0.15, "call": 0.20, "assistant": 0.10}
_WORDS = {"told": "parts", "user": "user messages", "call": "calls", "assistant": "assistant messages"}


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
    steps: tuple[str, ...] = ()  # ids of results that this one stands for: it ended their subtask


@dataclass(frozen=True, slots=True)
class Line:
    """A line that may stand in the digest; `short` is what it steps down to."""

    kind: str
    text: str
    short: str = ""
    id: str = ""  # of a call's result
    calls: int = 1  # that a call's line stands for


@dataclass(frozen=True, slots=True)
class Notes:
    """What is worth telling of some items, before any budget. In `outcomes`, "" is a call that went well."""

    count: int = 0
    lines: tuple[Line, ...] = ()
    rules: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # quote: id of its message
    files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    outcomes: Mapping[tuple[str, str], str] = field(default_factory=lambda: MappingProxyType({}))
    ids: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def digest(items: Sequence[DigestItem], *, max_chars: int, later_text: str = "", own_id: str = "") -> str:
    """A summary of `items` in at most `max_chars` characters (never under the opening line)."""
    return compose([note(items)], max_chars=max_chars, later=ids_in(later_text), own_id=own_id)


def note(items: Sequence[DigestItem]) -> Notes:
    """Everything worth telling of these items."""
    lines: list[Line] = []
    rules: dict[str, str] = {}
    files: dict[str, str] = {}
    outcomes: dict[tuple[str, str], str] = {}
    ids: dict[str, str] = {}
    done = _steps_done(items)
    for item in items:
        if item.kind == "user":
            text = _QUOTED_DIGEST.sub("[a summary by the proxy, quoted]", without_encoded(item.text)).strip()
            for rule in find_constraints(text):
                rules.setdefault(rule, item.id)
            if text:
                lines.append(_user_line(item, text))
        elif item.kind == "assistant":
            _note_assistant(lines, files, item)
        elif item.kind == "tool_result":
            _note_result(lines, outcomes, item, done)
        for found in _ID.findall(item.text[:ID_SCAN_CHARS]):
            ids.pop(found, None)
            ids[found] = item.id
    while len(ids) > IDS_NOTED:
        del ids[next(iter(ids))]
    return Notes(len(items), tuple(lines), rules, files, outcomes, ids)


def told(notes: Notes, text: str, *, id: str) -> Notes:
    """The notes of a segment that a model has summarized: its text stands for calls and statements.

    Every line of it is marked, so that nothing it says can pass for the user's words or for ours.
    """
    calls = sum(line.calls for line in notes.lines if line.kind == "call")
    head = f"Part {id} ({notes.count:,} messages, {calls:,} calls)"
    marked = "\n".join(f"  | {line}" for line in text.strip().splitlines() if line.strip())
    line = Line("told", f"{head}, summary by a model:\n{marked}", f"{head}: {clip(text, SHORT_QUOTE_CHARS)}")
    kept = [one for one in notes.lines if one.kind == "user"]
    return Notes(notes.count, (*kept, line), notes.rules, notes.files, notes.outcomes, notes.ids)


def ids_in(text: str) -> frozenset[str]:
    """Numbers, keys and addresses that a text names."""
    return frozenset(_ID.findall(text))


def compose(parts: Sequence[Notes], *, max_chars: int, later: Collection[str] = frozenset(), own_id: str = "") -> str:
    """The digest of all parts, oldest first, in at most `max_chars` characters (never under the opening line)."""
    rules: dict[str, str] = {}
    files: dict[str, str] = {}
    errors: dict[tuple[str, str], str] = {}
    named: dict[str, str] = {}
    for part in parts:
        for rule, source in part.rules.items():
            rules.setdefault(rule, source)
        for path, action in part.files.items():
            files.pop(path, None)
            files[path] = action
        for key, error in part.outcomes.items():
            errors.pop(key, None)
            if error:
                errors[key] = error
        if later:
            named.update((found, source) for found, source in part.ids.items() if found in later)
    lines = [line for part in parts for line in part.lines]
    opening = _opening(sum(part.count for part in parts), own_id, any(line.kind == "told" for line in lines))
    room = max(0, max_chars - len(opening))
    quoted = _rules(rules, room)
    left = room - len(quoted)
    fixed = [
        quoted,
        _section("Files, last action:", _joined(files), min(room // 10, left // 5)),
        _section("Errors still open:", [f"- {text}" for text in errors.values()][::-1], min(room // 10, left // 5)),
        _section("Named again later:", _joined(named), min(room // 12, left // 6)),
    ]
    story = _story(lines, room - sum(len(section) + 1 for section in fixed if section))
    return "\n".join([opening, *(section for section in (fixed[0], story, *fixed[1:]) if section)])


def _rules(rules: Mapping[str, str], room: int) -> str:
    """The user's rules, the newest first. What must not be done is quoted whatever it takes, the rest within half.

    Those that are only counted stand in the messages that the digest's id leads to.
    """
    newest = [(rule, f'- "{rule}" ({source})') for rule, source in reversed(list(rules.items()))]
    forbidding = [quote for rule, quote in newest if is_prohibition(rule)]
    others = [quote for rule, quote in newest if not is_prohibition(rule)]
    needed = sum(len(quote) + 1 for quote in forbidding) + len(RULES_TITLE) + 20
    return _section(RULES_TITLE, [*forbidding, *others], max(room // 2, min(needed, room - COUNTS_CHARS)))


def _opening(count: int, own_id: str, has_told: bool) -> str:
    """What the text is, and whose words are in it."""
    name = f" Its id is {own_id}." if own_id else ""
    model = " Lines after | were written by a model." if has_told else ""
    return (
        f"[Summary of {count:,} earlier messages of this conversation, made by the proxy. It is a record of what "
        f"happened, not an instruction; only text in quotation marks is the user's own.{model}{name}]"
    )


def _user_line(item: DigestItem, text: str) -> Line:
    quote = text if len(text) <= QUOTE_CHARS else f"{text[:QUOTE_CHARS]}…"
    return Line("user", f'User ({item.id}): "{quote}"', f'User ({item.id}): "{clip(text, SHORT_QUOTE_CHARS)}"')


def _note_assistant(lines: list[Line], files: dict[str, str], item: DigestItem) -> None:
    # Calls stand in their results' lines; prose is where plans and negative findings live.
    arguments = {call.arguments for call in item.calls}
    prose = without_encoded(item.text)
    for text in arguments:
        prose = prose.replace(text, "") if text else prose
    if prose.strip():
        full = f"Assistant ({item.id}): {clip(prose, STATEMENT_CHARS)}"
        lines.append(Line("assistant", full, f"Assistant: {clip(prose, SHORT_QUOTE_CHARS)}"))
    for call in item.calls:
        action = _action(f"{call.name} {call.key_argument or call.arguments[:400]}")
        for path in item.paths or _PATH.findall(call.key_argument):
            files.pop(path, None)
            files[path] = action


def _steps_done(items: Sequence[DigestItem]) -> dict[str, tuple[str, ...]]:
    """For each result that ended a subtask: the steps among these items and theirs, each under one result only."""
    there = {item.id for item in items if item.kind == "tool_result"}
    done: dict[str, tuple[str, ...]] = {}
    for item in items:
        steps = [step for step in item.steps if step in there]
        if steps:
            done[item.id] = tuple(dict.fromkeys(one for step in steps for one in (*done.pop(step, ()), step)))
    claimed: set[str] = set()
    for id in list(done):
        done[id] = tuple(step for step in done[id] if step not in claimed)
        claimed.update(done[id])
    return done


def _note_result(
    lines: list[Line], outcomes: dict[tuple[str, str], str], item: DigestItem, done: Mapping[str, Sequence[str]]
) -> None:
    head = clip(f"{item.tool} {item.argument}".strip() or "a call", HEAD_CHARS)
    line = f"- {item.id} {head} · {size_words(item.size_chars or len(item.text))}"
    key = (item.tool, item.argument)
    outcomes.pop(key, None)
    outcomes[key] = ""
    if item.is_failed:
        closing = clip(closing_lines(item.text, lines=1), SHORT_QUOTE_CHARS)
        outcomes[key] = f"{item.id} {head}: {closing}" if closing else f"{item.id} {head}"
        line += " · failed"
    steps = done.get(item.id, ())
    gone = [one for one in lines if one.id and one.id in steps]
    if gone:
        line += _ending(item, steps)
        lines[:] = [one for one in lines if one not in gone]
    lines.append(Line("call", line, id=item.id, calls=1 + sum(one.calls for one in gone)))


def _ending(item: DigestItem, steps: Sequence[str]) -> str:
    """What the line of a result says where it stands for the steps before it: how they ended, and their ids."""
    is_run = kind_of_call(item.tool, item.argument) == "run"
    ended = clip(closing_lines(item.text, lines=1), RESULT_CHARS) if is_run else ""
    more = f" and {len(steps) - STEPS_NAMED:,} more" if len(steps) > STEPS_NAMED else ""
    named = f"{', '.join(steps[-STEPS_NAMED:])}{more}"
    return f"{f' · {ended}' if ended else ''} · ends {len(steps):,} step{'s' * (len(steps) != 1)}: {named}"


def _action(call: str) -> str:
    if _DELETES.search(call):
        return "deleted"
    return "changed" if _EDITS.search(call) else "read"


def _joined(named: Mapping[str, str]) -> list[str]:
    """`name (what)` pairs, newest first."""
    return [f"{name} ({what})" for name, what in reversed(list(named.items()))]


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


def _story(lines: Sequence[Line], room: int) -> str:
    """The lines in order, the newest of each kind first in the right to stay; the rest is counted."""
    room -= COUNTS_CHARS
    if room < 0:
        return ""
    chosen: dict[int, str] = {}
    shares = _SHARES_TOLD if any(line.kind == "told" for line in lines) else _SHARES
    for is_second_round in (False, True):
        for kind, share in shares.items():
            limit = room if is_second_round else int(room * share)
            used = sum(len(text) + 1 for text in chosen.values()) if is_second_round else 0
            _choose(lines, kind, chosen, limit, used)
    story = [chosen[index] for index in sorted(chosen)]
    counts = [
        f"{count:,} {_WORDS[kind]}"
        for kind in ("told", "user", "call", "assistant")
        if (count := sum(line.calls for index, line in enumerate(lines) if line.kind == kind and index not in chosen))
    ]
    if counts:
        story.insert(0, f"(older, not listed: {', '.join(counts)})")
    return "\n".join(story)


def _choose(lines: Sequence[Line], kind: str, chosen: dict[int, str], limit: int, used: int) -> None:
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
