"""Splits a request body around its list, into exact slices; known elements are recognised, not parsed again.

An agent sends nearly the same list every time. So each known element remembers which elements
followed it, and a body is first walked by comparing bytes: JSON values delimit themselves, so
where a value must start, equal bytes are the same value. Only what is new is scanned.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from proxy.core.model import Element, Frame
from proxy.errors import NotUnderstoodError
from proxy.wire import jsonbytes

_ELEMENT = attrgetter("element")
CACHE_BYTES = 64 * 1024 * 1024
_MAX_FOLLOWERS = 4
_MAX_PREFIXES = 32
_MAX_REGIONS = 64
_REGION_END = 48
_QUICK_NEW = 128 * 1024
_QUICK_SIZE = 4 * 1024 * 1024
REGION_BYTES = 32 * 1024 * 1024
_REGION_ITEMS = 16
"""A shorter list is walked as fast as it is remembered."""


class _Known:
    """An element that was read before, and what followed it lately (weakly: the cache alone keeps elements)."""

    __slots__ = ("__weakref__", "element", "followers")

    def __init__(self, element: Element) -> None:
        self.element = element
        self.followers: list[weakref.ref[_Known]] = []

    def remember(self, follower: _Known) -> None:
        for ref in self.followers:
            if ref() is follower:
                return
        self.followers.insert(0, weakref.ref(follower))
        del self.followers[_MAX_FOLLOWERS:]


class _Prefix:
    """The bytes up to and including the list's bracket, and the first elements seen behind it."""

    __slots__ = ("bytes", "first")

    def __init__(self, prefix: bytes) -> None:
        self.bytes = prefix
        self.first: list[weakref.ref[_Known]] = []


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """A body whose list's last element ends at `end`. One that begins with the same bytes has the same elements."""

    body: bytes
    end: int
    prefix: _Prefix
    known: tuple[_Known, ...]
    gaps: tuple[bytes, ...]  # before each element

    def opens(self, body: bytes) -> bool:
        """Does the body begin so? Its end tells most others apart."""
        last = max(0, self.end - _REGION_END)
        if not body.startswith(self.body[last : self.end], last):
            return False
        return body.startswith(memoryview(self.body)[: self.end])  # it takes any buffer


class ElementCache:
    """Elements by their bytes, bounded in bytes. Two generations: what is not used through one is dropped."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit = limit_bytes // 2
        self._young: dict[bytes, _Known] = {}
        self._old: dict[bytes, _Known] = {}
        self._young_bytes = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def find(self, raw: bytes) -> _Known | None:
        known = self._young.get(raw)
        if known is None:
            known = self._old.pop(raw, None)
            if known is not None:
                self._keep(raw, known)
        return known

    def add(self, element: Element) -> _Known:
        known = _Known(element)
        self._keep(element.raw, known)
        return known

    def touch(self, known: _Known) -> None:
        """Found without a look-up: keep it young all the same."""
        raw = known.element.raw
        if raw not in self._young:
            self._old.pop(raw, None)
            self._keep(raw, known)

    def _keep(self, raw: bytes, known: _Known) -> None:
        # The element's texts and atoms weigh about as much as its bytes, twice.
        weight = 3 * len(raw) + 1000
        if self._young_bytes + weight > self._limit:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young[raw] = known
        self._young_bytes += weight


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A body as elements and frame. `skeleton` is the body with an empty list: all that is not an element."""

    elements: tuple[Element, ...]
    frame: Frame
    skeleton: bytes


class Splitter:
    """Splits bodies whose list stands under `key`; `read` decodes one element from its bytes."""

    def __init__(self, key: str, read: Callable[[bytes], Element], limit_bytes: int = CACHE_BYTES) -> None:
        self._key = key
        self._read = read
        self.cache = ElementCache(limit_bytes)
        self._regions: tuple[_Region, ...] = ()  # the newest first; replaced like the prefixes
        self._prefixes: tuple[_Prefix, ...] = ()  # replaced, never changed: bodies may be split in threads

    def element(self, raw: bytes) -> Element:
        """One element, from the cache when it is known."""
        known = self.cache.find(raw)
        return (known or self.cache.add(self._read(raw))).element

    def knows(self, body: bytes) -> bool:
        """Does the body begin like one whose list was found before?"""
        return any(body.startswith(prefix.bytes) for prefix in self._prefixes)

    def is_quick(self, body: bytes) -> bool:
        """Is little of the body new, and the body itself of a size that is soon compared?"""
        if len(body) <= _QUICK_NEW:
            return True
        if len(body) > _QUICK_SIZE:
            return False
        return any(len(body) - region.end <= _QUICK_NEW and region.opens(body) for region in self._regions)

    def split(self, body: bytes) -> Split:
        """Raises `NotUnderstoodError` when the body or one of its elements cannot be read."""
        prefix = self._find_prefix(body)
        start = len(prefix.bytes)
        region = next((region for region in self._regions if region.prefix is prefix and region.opens(body)), None)
        known, gaps, pos = self._walk_known(body, prefix, region)
        if body[pos : pos + 1] == b"]" and not (known and b"," in gaps[-1]):
            suffix_start = pos
        else:
            raws, new_gaps, suffix_start = _scan(body, pos)
            fresh = [self.cache.find(raw) or self.cache.add(self._read(raw)) for raw in raws]
            self._learn(prefix, known, fresh)
            known += fresh
            gaps += new_gaps
        if len(known) >= _REGION_ITEMS:
            end = suffix_start - len(gaps[-1])
            self._remember(_Region(body, end, prefix, tuple(known), tuple(gaps[:-1])), region)
        lead, trail = (gaps[0], gaps[-1]) if known else (body[start:pos], b"")
        frame = Frame(prefix.bytes + lead, tuple(gaps[1:-1]), trail + body[suffix_start:])
        return Split(tuple(map(_ELEMENT, known)), frame, prefix.bytes + body[suffix_start:])

    def _find_prefix(self, body: bytes) -> _Prefix:
        prefixes = self._prefixes
        for index, prefix in enumerate(prefixes):
            if body.startswith(prefix.bytes):
                if index > 3:
                    self._prefixes = (prefix, *prefixes[:index], *prefixes[index + 1 :])
                return prefix
        members, pos = jsonbytes.walk_object(body, until=self._key)
        if not members or members[-1].key != self._key:
            raise NotUnderstoodError(f"no {self._key!r} in the body")
        if body[pos : pos + 1] != b"[":
            raise NotUnderstoodError(f"{self._key!r} is not a list")
        prefix = _Prefix(body[: pos + 1])
        self._prefixes = (prefix, *prefixes[: _MAX_PREFIXES - 1])
        return prefix

    def _walk_known(
        self, body: bytes, prefix: _Prefix, region: _Region | None
    ) -> tuple[list[_Known], list[bytes], int]:
        """The known elements at the start of the list; gaps around them; the offset of what is not known."""
        found: list[_Known] = []
        if region is None:
            pos = jsonbytes.skip_blanks(body, len(prefix.bytes))
            gaps = [body[len(prefix.bytes) : pos]]
            candidates = prefix.first
        else:
            found, end = list(region.known), region.end
            pos = _next_value(body, end)
            gaps = [*region.gaps, body[end:pos]]
            candidates = found[-1].followers
        while (known := _match(body, pos, candidates)) is not None:
            self.cache.touch(known)
            found.append(known)
            candidates = known.followers
            end = pos + len(known.element.raw)
            pos = end + 1 if body[end : end + 2] == b",{" else _next_value(body, end)
            gaps.append(body[end:pos])
        return found, gaps, pos

    def _remember(self, made: _Region, old: _Region | None) -> None:
        """Keep a region in place of the one that its body began with."""
        if old is not None and old.end == made.end and self._regions[0] is old:
            return
        kept = [region for region in self._regions if region is not old][: _MAX_REGIONS - 1]
        regions = [made, *kept]
        while len(regions) > 1 and sum([len(region.body) for region in regions]) > REGION_BYTES:
            regions.pop()
        self._regions = tuple(regions)

    def _learn(self, prefix: _Prefix, known: list[_Known], fresh: list[_Known]) -> None:
        previous = known[-1] if known else None
        for item in fresh:
            if previous is None:
                prefix.first.insert(0, weakref.ref(item))
                del prefix.first[_MAX_FOLLOWERS * 4 :]
            else:
                previous.remember(item)
            previous = item


def _match(body: bytes, pos: int, candidates: list[weakref.ref[_Known]]) -> _Known | None:
    for ref in candidates:
        known = ref()
        if known is not None and body.startswith(known.element.raw, pos):
            return known
    return None


def _next_value(body: bytes, end: int) -> int:
    """The offset of the next value, or of the list's closing bracket."""
    pos = jsonbytes.skip_blanks(body, end)
    mark = body[pos : pos + 1]
    if mark == b"]":
        return pos
    if mark != b",":
        raise NotUnderstoodError(f"no comma or bracket at byte {pos}")
    return jsonbytes.skip_blanks(body, pos + 1)


def _scan(body: bytes, pos: int) -> tuple[list[bytes], list[bytes], int]:
    """The items from `pos` on, the gap behind each, and the offset of the list's closing bracket."""
    rest = b'{"":[' + body[pos:]
    value = jsonbytes.raw_values(rest).get("", b"")
    if not value or not rest.startswith(value, 4):
        # Perhaps only a lone surrogate: the scanner decides.
        _, end = jsonbytes.walk_list(rest, 4)
        value = rest[4:end]
    raws = jsonbytes.split_list(value)
    gaps: list[bytes] = []
    for raw in raws:
        if not body.startswith(raw, pos):
            raise NotUnderstoodError(f"slices do not add up at byte {pos}")
        end = pos + len(raw)
        pos = _next_value(body, end)
        gaps.append(body[end:pos])
    if not raws or body[pos : pos + 1] != b"]":
        raise NotUnderstoodError("the list does not end")
    return raws, gaps, pos


def outgoing_gaps(frame: Frame, count: int, sources: Sequence[int | None]) -> tuple[bytes, ...]:
    """The bytes between outgoing elements: neighbours that were neighbours keep theirs, others get a comma.

    `count` is the number of elements that came; `sources` the index of each outgoing one in that list.
    """
    if list(sources) == list(range(count)):
        return frame.gaps
    known = frame.gaps
    return tuple(
        [
            known[before] if before is not None and source == before + 1 and source < count else b","
            for before, source in pairwise(sources)
        ]
    )


def join(frame: Frame, raws: Sequence[bytes], gaps: Sequence[bytes]) -> bytes:
    """Elements back into the frame, each but the first behind its gap."""
    if not raws:
        return frame.prefix + frame.suffix
    out: list[bytes] = [frame.prefix, raws[0]]
    for gap, raw in zip(gaps, raws[1:], strict=True):
        out += (gap, raw)
    out.append(frame.suffix)
    return b"".join(out)
