"""JSON as bytes: exact slices of objects and lists, replacement in place, parsing that survives odd input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
import orjson

from proxy.errors import NotUnderstoodError

_BLANKS = re.compile(rb"[ \t\n\r]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(rb"true|false|null|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_REENCODED_NUMBER = re.compile(r"[0-9][.eE]|-0")
_RAW_OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Member:
    """One key of an object, with the exact place of its value."""

    key: str
    start: int
    end: int


def loads(data: bytes | str) -> Any:
    """Parse; also what strict parsers refuse: NaN, Infinity, lone surrogates. Raises ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _loads_slowly(data, None)


def loads_strict(data: bytes) -> Any:
    """Parse with lone surrogates, but refuse NaN and Infinity. Raises ValueError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _loads_slowly(data, _refuse_constant)


def _loads_slowly(data: bytes | str, parse_constant: Any) -> Any:
    try:
        text = data.decode() if isinstance(data, bytes) else data
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def dumps(value: Any) -> bytes:
    """Compact JSON; lone surrogates become escapes."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def canonical(text: str) -> str:
    """Tool arguments as identity compares them: sorted keys, one spelling a number; raw text when unparsable."""
    if not text.strip():
        return "{}"
    try:
        value = loads(text)
        if _REENCODED_NUMBER.search(text):
            value = _plain_numbers(value)
        return _dumps_sorted(value)
    except (ValueError, RecursionError):
        return text


def canonical_value(value: Any) -> str:
    """The same for a value that is parsed already."""
    try:
        return _dumps_sorted(value)
    except (ValueError, RecursionError):
        return repr(value)


def _dumps_sorted(value: Any) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _plain_numbers(value: Any) -> Any:
    """Whole floats as integers: JavaScript clients re-encode 1.0 as 1."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    return value


def skip_blanks(data: bytes, pos: int) -> int:
    match = _BLANKS.match(data, pos)
    return match.end() if match else pos


def skip_value(data: bytes, pos: int) -> int:
    """The end of the value that starts at `pos`. Raises `NotUnderstoodError`."""
    first = data[pos : pos + 1]
    if first == b'"':
        match = _STRING.match(data, pos)
    elif first in (b"{", b"["):
        depth = 0
        for token in _TOKEN.finditer(data, pos):
            mark = data[token.start()]
            if mark in b"{[":
                depth += 1
            elif mark in b"}]":
                depth -= 1
                if not depth:
                    return token.end()
        raise NotUnderstoodError("JSON ends inside a value")
    else:
        match = _SCALAR.match(data, pos)
    if match is None:
        raise NotUnderstoodError(f"no JSON value at byte {pos}")
    return match.end()


def walk_object(
    data: bytes, pos: int = 0, *, until: str = "", values: Mapping[str, bytes] | None = None
) -> tuple[list[Member], int]:
    """The members of the object at `pos`, duplicates included, and the offset behind it.

    Stops at the value of the key `until`, whose member then has no end (-1). `values` are raw
    values that a faster splitter found: a long one is not scanned again where it stands.
    Raises `NotUnderstoodError`.
    """
    pos = skip_blanks(data, pos)
    if data[pos : pos + 1] != b"{":
        raise NotUnderstoodError("not a JSON object")
    members: list[Member] = []
    pos = skip_blanks(data, pos + 1)
    if data[pos : pos + 1] == b"}":
        return members, pos + 1
    while True:
        key, pos = _read_key(data, pos)
        if until and key == until:
            members.append(Member(key, pos, -1))
            return members, pos
        raw = values.get(key, b"") if values else b""
        # Only values that delimit themselves: 1 also begins 12.
        is_known = raw[:1] in (b"{", b"[", b'"') and data.startswith(raw, pos)
        end = pos + len(raw) if is_known else skip_value(data, pos)
        members.append(Member(key, pos, end))
        pos = skip_blanks(data, end)
        mark = data[pos : pos + 1]
        if mark == b"}":
            return members, pos + 1
        if mark != b",":
            raise NotUnderstoodError(f"no comma or brace at byte {pos}")
        pos = skip_blanks(data, pos + 1)


def _read_key(data: bytes, pos: int) -> tuple[str, int]:
    """The key at `pos` and the offset of its value."""
    match = _STRING.match(data, pos)
    if match is None:
        raise NotUnderstoodError(f"no key at byte {pos}")
    try:
        key = loads(match.group())
    except ValueError as error:
        raise NotUnderstoodError(f"unreadable key at byte {pos}") from error
    pos = skip_blanks(data, match.end())
    if data[pos : pos + 1] != b":":
        raise NotUnderstoodError(f"no colon at byte {pos}")
    return key, skip_blanks(data, pos + 1)


def walk_list(data: bytes, pos: int = 0) -> tuple[list[tuple[int, int]], int]:
    """The (start, end) of every item of the list at `pos`, and the offset behind the list."""
    if data[pos : pos + 1] != b"[":
        raise NotUnderstoodError("not a JSON list")
    spans: list[tuple[int, int]] = []
    pos = skip_blanks(data, pos + 1)
    if data[pos : pos + 1] == b"]":
        return spans, pos + 1
    while True:
        end = skip_value(data, pos)
        spans.append((pos, end))
        pos = skip_blanks(data, end)
        mark = data[pos : pos + 1]
        if mark == b"]":
            return spans, pos + 1
        if mark != b",":
            raise NotUnderstoodError(f"no comma or bracket at byte {pos}")
        pos = skip_blanks(data, pos + 1)


def raw_values(data: bytes) -> dict[str, bytes]:
    """The raw values of an object, the last of duplicates; empty where msgspec refuses the object."""
    try:
        return {key: bytes(raw) for key, raw in _RAW_OBJECT.decode(data).items()}
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return {}


def split_list(data: bytes) -> list[bytes]:
    """The exact bytes of every item of a list, without parsing them. Raises `NotUnderstoodError`."""
    try:
        return [bytes(raw) for raw in _RAW_LIST.decode(data)]
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        # msgspec refuses lone surrogates even in a value that it only skips.
        spans, end = walk_list(data, skip_blanks(data, 0))
        if skip_blanks(data, end) != len(data):
            raise NotUnderstoodError("bytes behind the list") from None
        return [data[start:end] for start, end in spans]


def last_member(members: Iterable[Member], key: str) -> Member | None:
    """The member that parsers take when a key is given twice: the last."""
    found = None
    for member in members:
        if member.key == key:
            found = member
    return found


def slice_value(data: bytes, *keys: str) -> bytes | None:
    """The exact bytes of a value inside nested objects; None when a key is missing."""
    for key in keys:
        values = raw_values(data)
        if values:
            found = values.get(key)
        else:  # empty, with bytes behind it, or with what only the scanner takes
            start = skip_blanks(data, 0)
            if data[start : start + 1] != b"{":
                return None
            member = last_member(walk_object(data, start)[0], key)
            found = data[member.start : member.end] if member is not None else None
        if found is None:
            return None
        data = found
    return data


def replace_spans(data: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Every (start, end) replaced by its bytes; all other bytes stay. Spans must not overlap."""
    pieces: list[bytes] = []
    pos = 0
    for start, end, new in sorted(edits):
        pieces += (data[pos:start], new)
        pos = end
    pieces.append(data[pos:])
    return b"".join(pieces)


def replace_value(data: bytes, key: str, new: bytes) -> bytes:
    """The object with the value of `key` replaced; raises `NotUnderstoodError` without such a key."""
    member = last_member(walk_object(data)[0], key)
    if member is None:
        raise NotUnderstoodError(f"no key {key!r}")
    return replace_spans(data, [(member.start, member.end, new)])
