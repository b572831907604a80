"""Reads and edits what stands around the list of a request body. Edits touch only the bytes they must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.core.model import Frame
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes
from proxy.wire.base import FrameEdits
from proxy.wire.jsonbytes import Member

_COMPACTION = b',"context_management":[{"type":"compaction","compact_threshold":%d}]'


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The top level of a body without its list: raw values by key, the last of duplicates."""

    raw: dict[str, bytes]
    _read: dict[str, Any] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """The parsed value, which nobody may change; None when absent. Raises `NotUnderstoodError`."""
        raw = self.raw.get(key)
        if raw is None:
            return None
        if key not in self._read:
            try:
                self._read[key] = jsonbytes.loads_strict(raw)
            except ValueError as error:
                raise NotUnderstoodError(f"{key!r} cannot be read") from error
        return self._read[key]

    def text(self, key: str) -> str:
        """A string, or "" for anything else."""
        value = self.value(key)
        return value if isinstance(value, str) else ""

    def integer(self, key: str) -> int | None:
        value = self.value(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return int(value) if abs(value) < 2**53 else None

    def has(self, key: str) -> bool:
        """Present and not null, empty or false."""
        return self.raw.get(key, b"null") not in (b"null", b"[]", b"{}", b'""', b"false")


def read_fields(skeleton: bytes, list_key: str) -> Fields:
    """The fields of a body whose list was emptied. Raises `NotUnderstoodError` when the list is given twice."""
    members = walk_skeleton(skeleton)
    if sum(member.key == list_key for member in members) != 1:
        raise NotUnderstoodError(f"{list_key!r} is given twice")
    return Fields({member.key: skeleton[member.start : member.end] for member in members})


def walk_skeleton(skeleton: bytes) -> list[Member]:
    """The top-level members with exact offsets; checks that nothing but blanks follows the object."""
    members, end = jsonbytes.walk_object(skeleton, values=jsonbytes.raw_values(skeleton))
    if jsonbytes.skip_blanks(skeleton, end) != len(skeleton):
        raise NotUnderstoodError("bytes behind the body")
    return members


def edit_frame(frame: Frame, edits: FrameEdits, *, limit_keys: Sequence[str]) -> Frame:
    """The frame with the edits made. An allowance is only ever lowered, and only where one is given."""
    if edits == FrameEdits():
        return frame
    skeleton = frame.prefix + frame.suffix
    members = walk_skeleton(skeleton)
    changes: list[tuple[int, int, bytes]] = []
    if edits.ask_usage:
        changes.append(_usage_edit(skeleton, members))
    if edits.max_output is not None:
        changes += _limit_edits(skeleton, members, edits.max_output, limit_keys)
    if edits.compact_threshold is not None:
        changes.append((members[-1].end, members[-1].end, _COMPACTION % edits.compact_threshold))
    if edits.tool:
        changes.append(_tool_edit(skeleton, members, edits.tool))
    if edits.forbid_calls:
        changes.append(_choice_edit(skeleton, members))
    cut = len(frame.prefix)
    before = [change for change in changes if change[1] <= cut]
    after = [(start - cut, end - cut, new) for start, end, new in changes if start >= cut]
    return Frame(
        jsonbytes.replace_spans(frame.prefix, before),
        frame.gaps,
        jsonbytes.replace_spans(frame.suffix, after),
    )


def _usage_edit(skeleton: bytes, members: list[Member]) -> tuple[int, int, bytes]:
    options = jsonbytes.last_member(members, "stream_options")
    if options is None:
        end = members[-1].end
        return end, end, b',"stream_options":{"include_usage":true}'
    if skeleton[options.start : options.start + 1] != b"{":
        return options.start, options.end, b'{"include_usage":true}'
    inner, _ = jsonbytes.walk_object(skeleton, options.start)
    flag = jsonbytes.last_member(inner, "include_usage")
    if flag is not None:
        return flag.start, flag.end, b"true"
    comma = b"," if inner else b""
    return options.start + 1, options.start + 1, b'"include_usage":true' + comma


def _limit_edits(
    skeleton: bytes, members: list[Member], limit: int, keys: Sequence[str]
) -> list[tuple[int, int, bytes]]:
    changes = []
    for key in keys:
        member = jsonbytes.last_member(members, key)
        if member is None:
            continue
        value = jsonbytes.loads(skeleton[member.start : member.end])
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > limit:
            changes.append((member.start, member.end, b"%d" % limit))
    return changes


def _tool_edit(skeleton: bytes, members: list[Member], definition: bytes) -> tuple[int, int, bytes]:
    """The change that puts `definition` behind the last of the client's tools."""
    tools = jsonbytes.last_member(members, "tools")
    if tools is None or skeleton[tools.start : tools.start + 1] != b"[":
        raise NotUnderstoodError("no list of tools to add to")
    end = tools.start + len(skeleton[tools.start : tools.end - 1].rstrip(b" \t\r\n"))
    return end, end, b"," + definition


def _choice_edit(skeleton: bytes, members: list[Member]) -> tuple[int, int, bytes]:
    """The change that forbids tools for this one call."""
    choice = jsonbytes.last_member(members, "tool_choice")
    if choice is None:
        return members[-1].end, members[-1].end, b',"tool_choice":"none"'
    return choice.start, choice.end, b'"none"'


class FieldCache:
    """Fields by skeleton: an agent repeats its tools and settings on every call."""

    def __init__(self, list_key: str, size: int = 64, limit_bytes: int = 16 * 1024 * 1024) -> None:
        self._list_key = list_key
        self._size = size
        self._limit = limit_bytes
        self._bytes = 0
        self._known: dict[bytes, Fields] = {}

    def read(self, skeleton: bytes) -> Fields:
        """Raises `NotUnderstoodError`."""
        fields = self._known.get(skeleton)
        if fields is None:
            fields = read_fields(skeleton, self._list_key)
            if len(self._known) >= self._size or self._bytes + len(skeleton) > self._limit:
                self._known, self._bytes = {}, 0
            self._known[skeleton] = fields
            self._bytes += len(skeleton)
        return fields
