"""Content parts of both wire formats: readable text, canonical text, flat costs, and maskable texts in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxy.core.canonical import digest, normalise_text, printable
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes

IMAGE_TOKENS = 1100
AUDIO_TOKENS = 1100
FILE_TOKENS = 2200
"""Flat figures: base64 must never be counted as text. Billed usage calibrates the rest."""

_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_MAX_NAME = 120


@dataclass(frozen=True, slots=True)
class Content:
    """`text` is readable, `canonical` what identity hashes; they differ in how media appear."""

    text: str = ""
    canonical: str = ""
    flat_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TextSlot:
    """Where maskable texts stand: the value of `key`, or fields of the parts in the list there."""

    key: str
    fields: tuple[str, ...] = ("text",)
    types: frozenset[str] | None = _TEXT_TYPES  # of the parts; None: any


def read_content(value: Any) -> Content:
    """A string, a list of parts, or whatever else a client put there."""
    if value is None:
        return Content()
    if isinstance(value, str):
        return Content(printable(value), normalise_text(value))
    if not isinstance(value, list):
        odd = jsonbytes.canonical_value(value)
        return Content(printable(odd), odd)
    parts = [_read_part(part) for part in value]
    return Content(
        "\n".join(part.text for part in parts if part.text),
        normalise_text("\n".join(part.canonical for part in parts)),
        sum(part.flat_tokens for part in parts),
    )


def _read_part(part: Any) -> Content:
    if isinstance(part, str):
        return Content(printable(part), part)
    if not isinstance(part, dict):
        odd = jsonbytes.canonical_value(part)
        return Content(printable(odd), odd)
    kind = part.get("type")
    text = part.get("text")
    if isinstance(text, str) and (kind in _TEXT_TYPES or kind is None):
        return Content(printable(text), text)
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return Content(printable(part["refusal"]), part["refusal"])
    if kind in ("image_url", "input_image", "computer_screenshot"):
        return _media("image", _image_source(part), IMAGE_TOKENS)
    if kind == "input_audio":
        audio = part.get("input_audio", part)
        return _media("audio", _first_text(audio, ("data", "format")), AUDIO_TOKENS, _first_text(audio, ("format",)))
    if kind in ("file", "input_file"):
        file = part.get("file", part)
        source = _first_text(file, ("file_data", "file_id", "file_url"))
        return _media("file", source, FILE_TOKENS, _first_text(file, ("filename",)))
    return _unknown_part(part, str(kind))


def _unknown_part(part: dict[str, Any], kind: str) -> Content:
    """Never edited and hardly read: it may be anything, base64 included."""
    whole = jsonbytes.canonical_value({k: v for k, v in part.items() if k != "cache_control"})
    size = len(whole)
    return Content(f"[{printable(kind)[:_MAX_NAME]}]", _mark(kind, whole), min(IMAGE_TOKENS, size // 4))


def _image_source(part: dict[str, Any]) -> str:
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    return url if isinstance(url, str) else _first_text(part, ("file_id",))


def _first_text(value: Any, keys: Sequence[str]) -> str:
    if isinstance(value, dict):
        for key in keys:
            if isinstance(value.get(key), str) and value[key]:
                return str(value[key])
    return ""


def _media(kind: str, source: str, tokens: int, name: str = "") -> Content:
    return Content(_describe(kind, source, name), _mark(kind, source), tokens)


def _mark(kind: str, source: str) -> str:
    return f"\x00{kind} {digest(source.encode('utf-8', 'surrogatepass')).hex()}"


def _describe(kind: str, source: str, name: str) -> str:
    """`[image image/png 1.5 MB]` for inline data, else the address or name."""
    words = [kind]
    if name:
        words.append(printable(name)[:_MAX_NAME])
    head, comma, data = source.partition(",")
    if comma and head.startswith("data:"):
        words += [head[5:].split(";")[0][:_MAX_NAME], _size(len(data) * 3 // 4)]
    elif kind != "image" and len(source) > _MAX_NAME:
        words.append(_size(len(source) * 3 // 4))
    elif source:
        words.append(printable(source)[:_MAX_NAME])
    return f"[{' '.join(word for word in words if word)}]"


def _size(size_bytes: int) -> str:
    if size_bytes >= 1_000_000:
        return f"{size_bytes / 1_000_000:.1f} MB"
    return f"{max(1, size_bytes // 1000)} KB"


def texts_of(item: dict[str, Any], slot: TextSlot) -> tuple[str, ...]:
    """The maskable texts of a parsed element, in order; none where the shape is odd."""
    value = item.get(slot.key)
    if isinstance(value, str):
        return (printable(value),)
    if not isinstance(value, list):
        return ()
    return tuple(
        printable(part[field])
        for part in value
        if isinstance(part, dict) and _is_text_part(part.get("type"), slot)
        for field in slot.fields
        if isinstance(part.get(field), str)
    )


def spans_of(raw: bytes, slot: TextSlot) -> list[tuple[int, int]]:
    """Where the same texts stand in the element's bytes, in the same order."""
    member = jsonbytes.last_member(jsonbytes.walk_object(raw)[0], slot.key)
    if member is None:
        return []
    if raw[member.start : member.start + 1] == b'"':
        return [(member.start, member.end)]
    if raw[member.start : member.start + 1] != b"[":
        return []
    spans = []
    for start, _ in jsonbytes.walk_list(raw, member.start)[0]:
        if raw[start : start + 1] != b"{":
            continue
        members, _ = jsonbytes.walk_object(raw, start)
        kind = jsonbytes.last_member(members, "type")
        if not _is_text_part(jsonbytes.loads(raw[kind.start : kind.end]) if kind else None, slot):
            continue
        for field in slot.fields:
            found = jsonbytes.last_member(members, field)
            if found and raw[found.start : found.start + 1] == b'"':
                spans.append((found.start, found.end))
    return spans


def _is_text_part(kind: Any, slot: TextSlot) -> bool:
    return slot.types is None or (isinstance(kind, str) and kind in slot.types)


def render_texts(raw: bytes, slot: TextSlot | None, texts: Sequence[str | None]) -> bytes:
    """The element's bytes with its texts replaced in place. Raises `NotUnderstoodError` on a miscount."""
    spans = spans_of(raw, slot) if slot else []
    if len(spans) != len(texts):
        raise NotUnderstoodError(f"{len(texts)} texts for {len(spans)} places")
    edits = [
        (start, end, jsonbytes.dumps(text)) for (start, end), text in zip(spans, texts, strict=True) if text is not None
    ]
    return jsonbytes.replace_spans(raw, edits) if edits else raw
