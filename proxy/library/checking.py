"""What callers of the library may pass: each check names the argument, the value and what to give. Reads nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from proxy.core.expanding import parse_lines
from proxy.core.records import LinkType
from proxy.core.texts import clip
from proxy.errors import InputError
from proxy.library.writing import KINDS, Addition

MIN_BUDGET = 16
MAX_IMPORTANCE = 1e6
VALUE_CHARS = 80
_MESSAGE = 'Such as {"role": "user", "content": "…"}.'


def addition(
    kind: object, body: object, *, pin: object, source: object, importance: object, links: object, tool: object
) -> Addition:
    """What an application adds, once every part of it can be meant."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, not {shown(kind)}")
    if not isinstance(pin, bool):
        raise InputError(f"pin must be True or False, not {shown(pin)}")
    path = _source(source)
    if kind == "file_read" and not path:
        raise InputError("a file_read needs its source", hint='Give source="src/app.py".')
    if tool is not None and not isinstance(tool, str):
        raise InputError(f"tool must be the name of a tool, not {shown(tool)}")
    return Addition(kind, _body(kind, body), pin, path, number("importance", importance), _links(links), tool or "")


def _body(kind: str, body: object) -> str | Mapping[str, Any]:
    if kind == "message":
        if not isinstance(body, Mapping):
            raise InputError(f"the body of a message is a mapping, not {_type(body)}", hint=_MESSAGE)
        return body
    if isinstance(body, str):
        return body
    hint = 'Such as "All is well."'
    if isinstance(body, bytes | bytearray | memoryview):
        hint = 'Decode it: body.decode("utf-8", "replace").'
    elif isinstance(body, Mapping | Sequence):
        hint = 'Write it out: json.dumps(body). A whole chat message has the kind "message".'
    raise InputError(f"the body of a {kind} is a text, not {_type(body)}", hint=hint)


def _source(value: object) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is not None and not isinstance(value, str):
        raise InputError(f"source must be a text, such as a path or a command, not {shown(value)}")
    return value or ""


def _links(value: object) -> tuple[tuple[str, LinkType], ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f'links are pairs such as [(id, "cites")], not {shown(value)}')
    pairs = tuple(value)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"links are pairs of an id and a type, not {shown(pair)}", hint='Such as [(id, "cites")].')
        item_id(pair[0])
        link_type(pair[1])
    return pairs


def link_type(value: object) -> None:
    if not isinstance(value, str) or value not in get_args(LinkType):
        raise InputError(f"a link's type is one of {', '.join(get_args(LinkType))}, not {shown(value)}")


def number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_IMPORTANCE:
        raise InputError(
            f"{name} must be a number, at most {MAX_IMPORTANCE:,.0f} either way, not {shown(value)}",
            hint="0 is usual, 1 is much.",
        )
    return float(value)


def whole_number(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number, at least {least}, not {shown(value)}")
    return value


def budget(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < MIN_BUDGET:
        raise InputError(
            f"budget must be a whole number of tokens, at least {MIN_BUDGET}, not {shown(value)}",
            hint="Such as 12_000: the model's window less the reply, the tools and a margin.",
        )
    return value


def model(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"model must be the name of a model, not {shown(value)}", hint='Such as model="gpt-5".')
    return value


def query(value: object) -> str:
    """A text; None is an empty one."""
    if value is not None and not isinstance(value, str):
        raise InputError(f"query must be a text, not {shown(value)}")
    return value or ""


def conversation(value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise InputError(
            f"conversation must be a name or an id, not {shown(value)}",
            hint="Leave it away for your own conversation of this file.",
        )
    return value


def item_id(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"an id is a text of 12 characters, not {shown(value)}", hint="add returns it.")
    return value


def span(lines: object) -> tuple[int, int] | None:
    """The first and the last line, in this order; None for all of them."""
    if lines is None:
        return None
    found = parse_lines(lines) if isinstance(lines, str) else lines
    if (
        not isinstance(found, tuple)
        or len(found) != 2
        or not all(isinstance(line, int) and not isinstance(line, bool) and line >= 1 for line in found)
    ):
        raise InputError(f"lines must be such as '10-40' or (10, 40), counted from 1, not {shown(lines)}")
    first, last = found
    return min(first, last), max(first, last)


def shown(value: object) -> str:
    """A value as it stands in an error: one line that is not long."""
    return clip(repr(value), VALUE_CHARS)


def _type(value: object) -> str:
    return type(value).__name__
