"""Which elements of a list travel together: a call with its results, reasoning with its follower, and their like.

Works on positions alone. Call ids are not unique in the wild, so a result belongs to the nearest call before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from proxy.core.model import Call, Element

_LINKED_AT_MOST = 4
"""An id that occurs in more unknown elements than this is a common word (a model name), not a reference."""

_ID_TEXT = re.compile(rb'"([A-Za-z0-9][A-Za-z0-9_:.\-]{3,79})"')
_ARGUMENTS_SCANNED = 20_000
_KEY_NAMES = frozenset(
    {
        "command",
        "cmd",
        "path",
        "file_path",
        "filePath",
        "filepath",
        "file",
        "filename",
        "absolute_path",
        "relative_path",
        "target_file",
        "directory",
        "dir",
        "query",
        "search",
        "pattern",
        "regex",
        "url",
        "uri",
        "id",
        "key",
        "name",
        "symbol",
        "table",
        "sql",
        "code",
        "script",
        "input",
    }
)
_IS_ID_NAME = re.compile(r"(?:^|_)(?:id|ids|no|number|code|key)$|Id$")
_PAIR = re.compile(
    r'"((?:[^"\\]|\\.)*)"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d[\d.eE+-]*|true|false)|\[((?:\s*"(?:[^"\\]|\\.)*"\s*,?)+)\])',
    re.DOTALL,
)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CallSite:
    """A tool call and where in the list it was made."""

    index: int
    call: Call

    @property
    def key_argument(self) -> str:
        return key_argument(self.call.arguments)


@dataclass(slots=True)
class Pairing:
    """Which call each result of a list answers, as far as the list was read. Reads on where it stopped."""

    sites: dict[int, CallSite] = field(default_factory=dict)
    _latest: dict[str, tuple[CallSite, ...]] = field(default_factory=dict)
    _latest_any: tuple[CallSite, ...] = ()

    def copy(self) -> Pairing:
        return Pairing(dict(self.sites), dict(self._latest), self._latest_any)

    def read(self, elements: Sequence[Element], start: int = 0) -> None:
        """Read on from `start`, which is where the last reading ended."""
        for index in range(start, len(elements)):
            element = elements[index]
            if element.calls:
                made = tuple(CallSite(index, call) for call in element.calls)
                self._latest_any = _extend(self._latest_any, made, elements)
                for call_id in {name for call in element.calls for name in (call.id, call.alias or call.id)}:
                    self._latest[call_id] = tuple(s for s in made if call_id in (s.call.id, s.call.alias))
            if element.answers is not None:
                self._answer(index, element.answers)

    def _answer(self, index: int, answers: str) -> None:
        waiting = self._latest.get(answers, ()) if answers else self._latest_any
        if not waiting:
            return
        self.sites[index] = waiting[0]
        # A second result for one call keeps to it; two calls under one id are answered in order.
        if len(waiting) > 1 and answers:
            self._latest[answers] = waiting[1:]
        elif len(waiting) > 1:
            self._latest_any = waiting[1:]


def pair_results(elements: Sequence[Element]) -> dict[int, CallSite]:
    """Map the index of each tool result to the call it answers. Results without a call are left out."""
    pairing = Pairing()
    pairing.read(elements)
    return pairing.sites


def groups(elements: Sequence[Element]) -> list[int]:
    """A group number for each element, counting up from 0. Members of a group are adjacent.

    Never split: a call and its results and what lies between them; a call without any result and
    what follows it; reasoning and the rest of the response it opened; unknown elements that name
    the same id, and an unknown element and the element before it.
    """
    joined, _ = joins(elements, pair_results(elements))
    return number(joined)


def joins(
    elements: Sequence[Element], sites: Mapping[int, CallSite], known: Sequence[bool] = ()
) -> tuple[list[bool], int]:
    """Whether each element is in the group of the one before it. `known` are those of the list when it was shorter.

    The second value is the index up to which nothing has changed against `known`.
    """
    start = len(known)
    if start and any(map(is_unknown, elements[start:])):
        start = 0  # unknown elements may link what lies far before them, or part it again
    joined = [*known[:start], *[False] * (len(elements) - start)]
    lowest = start
    for index in range(start, len(elements)):
        if index and (elements[index - 1].calls or _continues(elements[index - 1], elements[index])):
            joined[index] = True
        if (site := sites.get(index)) is not None:
            lowest = min(lowest, _join(joined, site.index, index))
    if not start:
        for first, last in _references(elements):
            _join(joined, first, last)
    return joined, lowest


def number(joined: Sequence[bool]) -> list[int]:
    """Group numbers, counting up where an element is not joined to the one before it."""
    if not joined:
        return []
    return list(accumulate((not is_joined for is_joined in joined[1:]), initial=0))


def call_ordinals(elements: Sequence[Element], known: Sequence[int] = ()) -> list[int]:
    """For each element the ordinal of its assistant turn: its own or the one before it; 0 before the first.

    `known` are those of the list when it was shorter.
    """
    ordinals = list(known)
    ordinal = ordinals[-1] if ordinals else 0
    for index in range(len(ordinals), len(elements)):
        element = elements[index]
        is_same_response = index > 0 and _is_response_part(elements[index - 1], element)
        if not is_same_response and _is_by_model(element):
            ordinal += 1
        ordinals.append(ordinal)
    return ordinals


def key_argument(arguments: str) -> str:
    """The argument that tells one call from another (a command, a path, a query, an id), on one line.

    Reads the text by pattern: arguments need not be valid JSON, and a model may have broken them.
    """
    if not arguments.lstrip().startswith("{"):
        return _one_line(arguments)
    found: list[tuple[str, str]] = []
    for match in _PAIR.finditer(arguments[:_ARGUMENTS_SCANNED]):
        name, text, number, array = match.groups()
        if array is not None:
            text = " ".join(_unescape(piece) for piece in _STRING.findall(array))
        found.append((_unescape(name), _unescape(text) if text is not None else number))
    named = [value for name, value in found if name in _KEY_NAMES or _IS_ID_NAME.search(name)]
    chosen = named[:2] or [value for _, value in found][:1]
    return _one_line(" ".join(chosen))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text) if "\\" in text else text


def _unescape_one(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) == 5:
        return chr(int(code[1:], 16)) if not 0xD800 <= int(code[1:], 16) <= 0xDFFF else "?"
    return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}.get(code, code)


def _extend(
    waiting: tuple[CallSite, ...], made: tuple[CallSite, ...], elements: Sequence[Element]
) -> tuple[CallSite, ...]:
    """Calls that an answer without an id may mean: those of one response, in order."""
    is_adjacent = bool(waiting) and made[0].index == waiting[-1].index + 1
    if is_adjacent and _is_response_part(elements[waiting[-1].index], elements[made[0].index]):
        return waiting + made
    return made


def _is_result(element: Element) -> bool:
    return element.kind == "tool_result" or element.answers is not None


def _is_hosted(element: Element) -> bool:
    """A call that the provider answered itself, in the same element."""
    return element.kind == "tool_result" and element.role == "assistant"


def _is_by_model(element: Element) -> bool:
    if _is_result(element) and not _is_hosted(element):
        return False
    return element.role == "assistant" or element.kind in ("tool_call", "reasoning") or bool(element.calls)


def is_unknown(element: Element) -> bool:
    """Is it of no kind that we can read?"""
    return element.kind == "opaque" or any(atom.kind == "other" for atom in element.atoms)


def _is_response_part(before: Element, element: Element) -> bool:
    """Both come from one response. Two whole assistant messages in a row do not."""
    if not _is_by_model(element):
        return False
    if before.kind == "opaque":  # between reasoning and words there may be items of any kind
        return True
    is_item = any(e.kind in ("reasoning", "tool_call") or _is_hosted(e) for e in (before, element))
    return is_item and _is_by_model(before)


def _continues(before: Element, element: Element) -> bool:
    if _is_response_part(before, element):
        return True
    if before.kind == "reasoning":
        return True
    if _is_result(element):
        return _is_result(before) or bool(before.calls) or is_unknown(before)
    return element.kind == "opaque" and before.role not in ("system", "developer")


def _join(joined: list[bool], first: int, last: int) -> int:
    """Join all from `first` to `last`; returns the first index that was not joined before."""
    lowest = last + 1
    for index in range(last, first, -1):
        if not joined[index]:
            joined[index], lowest = True, index
    return lowest


def _references(elements: Sequence[Element]) -> list[tuple[int, int]]:
    """Spans from the first to the last unknown element that carries one and the same id."""
    unknown = [index for index, element in enumerate(elements) if is_unknown(element)]
    if len(unknown) < 2:
        return []
    ids = {index: {found for found in _ID_TEXT.findall(elements[index].raw) if _is_id(found)} for index in unknown}
    counts = Counter(found for index in unknown for found in ids[index])
    spans: dict[bytes, tuple[int, int]] = {}
    for index in unknown:
        for found in ids[index]:
            if 2 <= counts[found] <= _LINKED_AT_MOST:
                spans[found] = (spans.get(found, (index, index))[0], index)
    return sorted(spans.values())


def _is_id(text: bytes) -> bool:
    return any(48 <= byte <= 57 for byte in text)
