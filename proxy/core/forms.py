"""The shorter forms of an item: stub and excerpt of a text, shape of a parsed value. Pure and deterministic.

Encoded data (data URLs, base64) is never cut: it stands whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence

ARGUMENT_CHARS = 70
INTRODUCED_WORDS = 4
CLOSING_LINES = 5
CLOSING_CHARS = 600
ERROR_LINES = 3
ERROR_LINE_CHARS = 200
EXCERPT_SHARE = 0.25
EDGE_LINES = 4
LONG_LINE = 400
MIN_EXCERPT_LINES = 12

_WORD = re.compile(r"[A-Za-z_]\w{3,39}|\d{4,39}")
_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*,[A-Za-z0-9+/=_%-]*")
_BASE64_RUN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{200,}={0,2}(?:\r?\n[A-Za-z0-9+/_-]{60,}={0,2})*")
_BASE64_LINES = re.compile(r"(?:^[A-Za-z0-9+/]{60,80}={0,2}\r?\n){4,}(?:^[A-Za-z0-9+/]{1,80}={0,2}$)?", re.MULTILINE)
_IDENTIFIER = re.compile(r"\d|_|[a-z][A-Z]")
_ERROR_LINE = re.compile(
    r"\b(?:errors?|exceptions?|traceback|fatal|panic(?:ked)?|critical|failed|failure|fails|segfault|undefined|denied)\b"
    r"|\b\w+(?:Error|Exception)\b|^E  ",
    re.IGNORECASE,
)
_REPORTED_ERROR = re.compile(
    r"^E   |(?<![\w.'\"])(?:ERROR|FATAL|CRITICAL|PANIC)(?![\w'\"(]|\s*=)|^(?:\w+\.)*[A-Z]\w*(?:Error|Exception): "
)
"""A line by which a log or a test run reports an error; not what code or prose says about errors."""
_MAY_REPORT = ("ERROR", "FATAL", "CRITICAL", "PANIC", "Error: ", "Exception: ", "\nE   ")
_LINES_LOOKED_AT = 200
_DIFF = re.compile(r"^(?:diff --git |@@ -\d)", re.MULTILINE)


def size_words(chars: int) -> str:
    """A size as people and models read it: `14,213 chars`."""
    return f"{chars:,} char" if chars == 1 else f"{chars:,} chars"


def stub(
    text: str,
    *,
    id: str,
    tool: str,
    failed: bool,
    argument: str = "",
    can_expand: str = "",
    words: Sequence[str] = (),
) -> str:
    """One line that stands for an omitted output, with its error lines below; a failed one keeps its closing lines.

    `argument` tells which call it was, `words` are a few that only this text introduced (see
    `introduced_words`). `can_expand` is the name of the tool that returns the original, and must
    be empty when that tool is not in the very request.
    """
    parts = [f"output omitted from history: {size_words(len(text))} from {tool or 'a tool'}", f"id {id}"]
    if failed:
        parts.append("failed")
    if argument:
        parts.append(f"call: {clip(argument, ARGUMENT_CHARS)}")
    if words:
        parts.append(f"mentions: {', '.join(words[:INTRODUCED_WORDS])}")
    if can_expand:
        parts.append(f'{can_expand}("{id}") returns it')
    line = f"[{' · '.join(parts)}]"
    closing = closing_lines(text) if failed else ""
    errors = [error for error in error_lines(text) if error not in closing]
    return "\n".join([line, *errors, closing] if closing else [line, *errors])


def error_lines(text: str) -> list[str]:
    """The first and the last of the lines that report an error, each once and of bounded length."""
    found: dict[str, None] = {}
    for start, stop in _lines_with(text, _MAY_REPORT):
        line = without_encoded(text[start : min(stop, start + 4 * ERROR_LINE_CHARS)])
        if _REPORTED_ERROR.search(line):
            found.setdefault(clip(line, ERROR_LINE_CHARS))
    lines = list(found)
    return lines if len(lines) <= ERROR_LINES else [lines[0], *lines[1 - ERROR_LINES :]]


def _lines_with(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where lines lie that hold one of `words`, in order: of each word the first and the last that many."""
    spans = {_line_at(text, 0)}
    for word in words:
        first, last = text.find(word), text.rfind(word)
        for _ in range(_LINES_LOOKED_AT):
            if first < 0:
                break
            ahead, back = _line_at(text, first), _line_at(text, last)
            spans |= {ahead, back}
            if ahead >= back:
                break
            first, last = text.find(word, ahead[1]), text.rfind(word, 0, back[0])
    return sorted(spans)


def _line_at(text: str, position: int) -> tuple[int, int]:
    position += text.startswith("\n", position)
    stop = text.find("\n", position)
    return text.rfind("\n", 0, position) + 1, len(text) if stop < 0 else stop


def introduced_words(text: str, known: Container[str], count: int = INTRODUCED_WORDS) -> tuple[str, ...]:
    """Up to `count` words of `text` that are not in `known`: identifiers before plain words, then in order."""
    new: dict[str, None] = {}
    for word in _WORD.findall(without_encoded(text)):
        if word not in known:
            new.setdefault(word)
    ranked = sorted(new, key=lambda word: not _IDENTIFIER.search(word))
    return tuple(ranked[:count])


def words_of(text: str) -> frozenset[str]:
    """Every word that `introduced_words` could name."""
    return frozenset(_WORD.findall(without_encoded(text)))


def excerpt(
    text: str,
    *,
    id: str,
    tool: str,
    failed: bool,
    argument: str = "",
    can_expand: str = "",
    terms: Container[str] = frozenset(),
    shape_text: str = "",
    share: float = EXCERPT_SHARE,
) -> str | None:
    """A shorter text that keeps what is likely needed, with what is missing said; None when none is right.

    JSON becomes its shape (`shape_text`, from the parsed value); other text keeps error lines, first
    and last lines, lines with one of `terms`, and an even sample up to `share` of its characters.
    Encoded data, diffs and JSON without a shape have no excerpt.
    """
    lines = text.splitlines()
    if shape_text:
        body, kept = shape_text, "its shape"
    elif is_encoded(text) or is_json_like(text) or _DIFF.search(text) or len(lines) < MIN_EXCERPT_LINES:
        return None
    else:
        chosen = _choose_lines(lines, terms, int(len(text) * share))
        if len(chosen) == len(lines):
            return None
        body, kept = _with_gaps(lines, chosen), f"{len(chosen):,} of {len(lines):,} lines"
    parts = [f"excerpt of {size_words(len(text))} from {tool or 'a tool'}", f"id {id}", f"kept {kept}"]
    if failed:
        parts.append("failed")
    if argument:
        parts.append(f"call: {clip(argument, ARGUMENT_CHARS)}")
    if can_expand:
        parts.append(f'{can_expand}("{id}") returns all')
    made = f"[{' · '.join(parts)}]\n{body}"
    return made if len(made) < len(text) else None


def closing_lines(text: str, lines: int = CLOSING_LINES, chars: int = CLOSING_CHARS) -> str:
    """The last lines that are not blank, whole where they fit. Encoded data is named, not cut."""
    kept: list[str] = []
    room = chars
    for line in reversed(without_encoded(text[-20_000:]).rstrip().splitlines()):
        if not line.strip():
            continue
        if len(line) > room:
            if not kept:
                kept.append(f"…{line[-room:]}")
            break
        kept.append(line)
        room -= len(line)
        if len(kept) == lines:
            break
    return "\n".join(reversed(kept))


def shape(value: object, depth: int = 4) -> str:
    """The shape of a parsed JSON value: keys, types, array lengths; short scalars as they are."""
    return _shape(value, depth, is_exact=True)


def is_encoded(text: str) -> bool:
    """Is the text mainly a data URL or base64?"""
    return 2 * len(without_encoded(text, "")) < len(text)


def without_encoded(text: str, note: str = "[encoded data, {size}]") -> str:
    """The text with each run of encoded data as a whole replaced by `note`."""
    if len(text) < 200:
        return text

    def replaced(match: re.Match[str]) -> str:
        found = match.group()
        if not found.startswith("data:") and not _looks_base64(found):
            return found
        return note.format(size=size_words(len(found)))

    for pattern in (_DATA_URL, _BASE64_LINES, _BASE64_RUN):
        text = pattern.sub(replaced, text)
    return text


def is_json_like(text: str) -> bool:
    """Does the text look like one JSON object or array?"""
    stripped = text.strip()
    return stripped[:1] + stripped[-1:] in ("{}", "[]") and not re.match(r"\[\w+\]\s", stripped)


def clip(text: str, chars: int) -> str:
    """One line of at most `chars` characters, with an ellipsis where it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def _looks_base64(run: str) -> bool:
    """Mixed enough to be data: a rule of dashes or a row of one letter is not."""
    sample = run[:400]
    has_kinds = (
        any(c.isupper() for c in sample) and any(c.islower() for c in sample) and any(c.isdigit() for c in sample)
    )
    return has_kinds and len(set(sample)) >= 20


def _choose_lines(lines: Sequence[str], terms: Container[str], room: int) -> list[int]:
    """Indices to keep, in order: by kind of reason first, as far as `room` characters reach."""
    count = len(lines)
    edges = {*range(min(EDGE_LINES, count)), *range(max(0, count - EDGE_LINES), count)}
    errors = [index for index, line in enumerate(lines) if _ERROR_LINE.search(line)]
    named: list[int] = []
    if terms:
        named = [index for index, line in enumerate(lines) if any(word in terms for word in _WORD.findall(line))]
    step = max(2, count // 12)
    chosen: set[int] = set()
    # Errors may be many and alike; half the room is theirs, the newest first among those beyond it.
    for indices, limit in (
        (sorted(edges), room),
        (errors[::-1], room * 3 // 4),
        (named, room),
        (range(0, count, step), room),
    ):
        used = sum(min(len(lines[index]), LONG_LINE) + 1 for index in chosen)
        for index in indices:
            size = min(len(lines[index]), LONG_LINE) + 1
            if index in chosen or used + size > limit:
                continue
            chosen.add(index)
            used += size
    return sorted(chosen)


def _with_gaps(lines: Sequence[str], chosen: Sequence[int]) -> str:
    out: list[str] = []
    following = 0
    for index in chosen:
        if index > following:
            out.append(_gap(index - following))
        out.append(_short_line(lines[index]))
        following = index + 1
    if following < len(lines):
        out.append(_gap(len(lines) - following))
    return "\n".join(out)


def _gap(count: int) -> str:
    return f"… {count:,} line{'' if count == 1 else 's'} omitted"


def _short_line(line: str) -> str:
    line = without_encoded(line)
    if len(line) <= LONG_LINE:
        return line
    return f"{line[:LONG_LINE]}… [{size_words(len(line) - LONG_LINE)} of this line omitted]"


_KEYS_SHOWN = 24
_SAMPLES = 40


def _shape(value: object, depth: int, *, is_exact: bool) -> str:
    if isinstance(value, Mapping):
        return _shape_object(value, depth, is_exact=is_exact)
    if isinstance(value, str):
        if is_exact and len(value) <= 40 and "\n" not in value:
            return f'"{value}"'
        return f"string, {size_words(len(value))}" if is_exact else "string"
    if isinstance(value, list | tuple):
        return _shape_array(value, depth)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value] if is_exact or value is None else "bool"
    return str(value) if is_exact else "number"


def _shape_object(value: Mapping[object, object], depth: int, *, is_exact: bool) -> str:
    if depth <= 0:
        return f"{{{len(value)} keys}}"
    shown = [
        f"{key}: {_shape(inner, depth - 1, is_exact=is_exact)}" for key, inner in list(value.items())[:_KEYS_SHOWN]
    ]
    if len(value) > _KEYS_SHOWN:
        shown.append(f"… {len(value) - _KEYS_SHOWN} more keys")
    return "{" + ", ".join(shown) + "}"


def _shape_array(value: Sequence[object], depth: int) -> str:
    if not value:
        return "[]"
    if depth <= 0:
        return f"[{len(value):,} items]"
    # Elements of one kind are told by one of them; optional keys come from the first of the others.
    samples = list(value[:_SAMPLES])
    if all(isinstance(sample, Mapping) for sample in samples):
        merged: dict[object, object] = {}
        for sample in samples:
            for key, inner in sample.items() if isinstance(sample, Mapping) else ():
                merged.setdefault(key, inner)
        return f"[{len(value):,} × {_shape(merged, depth - 1, is_exact=False)}]"
    kinds = sorted({_shape(sample, depth - 1, is_exact=False) for sample in samples})
    return f"[{len(value):,} × {' | '.join(kinds[:4])}]"
