"""Gives a run other numbers and names, the same everywhere in it: what was learned by heart is of no use."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from proxy.evaluation.recorded.labels import plain

_DIGITS = re.compile(r"(?<![\w.])\d{4,}(?![\w.])|(?<=[#_-])\d{4,}\b")
_NAME = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b")
_LEAST = 2  # a name in fewer messages than that leads nowhere


def renamed(messages: Sequence[Mapping[str, Any]], seed: int) -> list[dict[str, Any]]:
    """The same run with every long number altered, and names that several messages share. Ids of calls stay."""
    tools = {c["function"]["name"] for m in messages for c in m.get("tool_calls") or ()}
    keys = {key for m in messages for c in m.get("tool_calls") or () for key in _keys(c["function"]["arguments"])}
    held: Counter[str] = Counter()
    for message in messages:
        held.update(set(_NAME.findall(_all(message))))
    names = {name for name, count in held.items() if count >= _LEAST and name not in tools and name not in keys}
    new: dict[str, str] = {}

    def digits(found: re.Match[str]) -> str:
        return new.setdefault(found[0], _number(found[0], Random(f"{seed} {found[0]}")))

    def name(found: re.Match[str]) -> str:
        if found[0] not in names:
            return found[0]
        return new.setdefault(found[0], _other(found[0], Random(f"{seed} {found[0]}")))

    def change(text: str) -> str:
        return _NAME.sub(name, _DIGITS.sub(digits, text))

    return [_changed(message, change) for message in messages]


def _number(old: str, random: Random) -> str:
    first = random.choice("123456789") if old[0] != "0" else "0"
    return first + "".join(random.choice("0123456789") for _ in old[1:])


def _other(old: str, random: Random) -> str:
    """The same name with its last letters changed: as long, and as much a name."""
    return old[:-3] + "".join(random.choice("bcdfghjkmnpqrstvwxz") for _ in old[-3:])


def _keys(arguments: str) -> list[str]:
    try:
        value = json.loads(arguments)
    except ValueError:
        return []
    return list(value) if isinstance(value, dict) else []


def _all(message: Mapping[str, Any]) -> str:
    calls = " ".join(plain(c["function"]["arguments"]) for c in message.get("tool_calls") or ())
    return f"{_text(message.get('content'))} {calls}"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _changed(message: Mapping[str, Any], change: Any) -> dict[str, Any]:
    made = dict(message)
    if isinstance(made.get("content"), str):
        made["content"] = change(made["content"])
    elif isinstance(made.get("content"), list):
        made["content"] = [
            {**part, "text": change(part["text"])}
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else part
            for part in made["content"]
        ]
    if made.get("tool_calls"):
        made["tool_calls"] = [
            {**c, "function": {**c["function"], "arguments": _arguments(c["function"]["arguments"], change)}}
            for c in made["tool_calls"]
        ]
    return made


def _part(part: Any, change: Any) -> Any:
    has_text = isinstance(part, dict) and isinstance(part.get("text"), str)
    return {**part, "text": change(part["text"])} if has_text else part


def _arguments(text: str, change: Any) -> str:
    """In JSON it is the values that have names in them, not their escapes."""
    try:
        value = json.loads(text)
    except ValueError:
        return str(change(text))
    return json.dumps(_value(value, change), ensure_ascii=False)


def _value(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {key: _value(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value
