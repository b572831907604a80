"""What an action names: short arguments, ids, paths, identifiers, quotes and copied lines. Text in, atoms out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

EXEMPT = frozenset({"id", "email", "money"})
"""Classes that are never common knowledge, in however many runs they are used."""
OWN = frozenset({"url", "path", "file", "id", "arg", "email", "money"})
"""Classes that the agent must find again although it wrote them first itself."""
LONGEST_ARGUMENT = 60

_ENDINGS = (
    "py|pyi|js|jsx|ts|tsx|json|jsonl|md|rst|txt|toml|ya?ml|cfg|ini|c|h|cc|cpp|hpp|go|rs|java|rb|php|pony|sh|sql|csv|tsv|"
    "html?|css|xml|log|diff|patch|lock|ipynb|pdf|png|jpe?g|svg|bak|backup|zip|gz|tar"
)
_PATTERNS = (
    ("url", re.compile(r"https?://[^\s\"'<>)\]}]+")),
    ("email", re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")),
    ("path", re.compile(r"(?<![\w/.:-])(?:~|\.{1,2})?/?(?:[\w.+-]+/)+[\w.+-]*\w")),
    ("file", re.compile(r"(?<![\w/.-])[\w-]+(?:\.[\w-]+)*\.(?:" + _ENDINGS + r")(?![\w(/.])")),
    ("money", re.compile(r"\$\s?\d[\d,]*(?:\.\d+)?")),
    ("id", re.compile(r"(?<![\w.])#?(?:[A-Z]+\d[A-Z0-9]{2,}|\d+[A-Z][A-Z0-9]{3,}|[a-z]+(?:_[a-z]+)+_\d{3,}"
                      r"|\d{4}-\d\d-\d\d|\d{5,}|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40})(?!\w)")),
    ("ident", re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?!\w)")),
    ("ident", re.compile(r"\b(?:_*[A-Za-z]\w*_\w*|_+[A-Za-z]\w+|[A-Z][a-z0-9]+(?:[A-Z]\w*)+|[a-z]+[A-Z]\w+)\b")),
    ("quoted", re.compile(r"\"([^\"\n]{6,80})\"|'([^'\n]{6,80})'|`([^`\n]{6,80})`")),
)  # fmt: skip
_SPOKEN = frozenset({"url", "email", "path", "file", "money", "id"})
_LEAST = {"ident": 6, "path": 5, "file": 5}

Atoms = dict[str, str]
"""Atom to its class; the first class that found it stands."""


def atoms_of(message: Mapping[str, Any]) -> Atoms:
    """The atoms of an assistant message, in a fixed order: of its calls, then of what it says."""
    found: Atoms = {}
    for call in message.get("tool_calls") or ():
        for value in values(call["function"]["arguments"]):
            short = value.strip()
            if 3 <= len(short) <= LONGEST_ARGUMENT and "\n" not in short and " " not in short:
                found.setdefault(short, _class_of(short))
            for atom, kind in _matches(value):
                found.setdefault(atom, kind)
            for line in value.splitlines() if "\n" in value else ():
                if 24 <= len(line.strip()) <= 200:
                    found.setdefault(line.strip(), "line")
    for atom, kind in _matches(spoken(message)):
        if kind in _SPOKEN:
            found.setdefault(atom, kind)
    return found


def values(arguments: str) -> list[str]:
    """Every text or number of a call's arguments, at any depth; the whole text where it is no JSON."""
    try:
        return list(_leaves(json.loads(arguments)))
    except ValueError:
        return [arguments]


def spoken(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _matches(text: str) -> Iterator[tuple[str, str]]:
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            atom = next((group for group in match.groups() if group), match.group()).strip().rstrip(".,:;")
            if len(atom) >= _LEAST.get(kind, 4):
                yield atom, kind


def _class_of(argument: str) -> str:
    for kind, pattern in _PATTERNS[:4]:
        if pattern.fullmatch(argument):
            return kind
    return "arg"
