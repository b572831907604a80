"""Which elements of a list travel together: a call with its results, reasoning with its follower, and their like.

Works on positions alone. Call ids are not unique in the wild, so a result belongs to the nearest call before it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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


def pair_results(elements: Sequence[Element]) -> dict[int, CallSite]:
    """Map the index of each tool result to the call it answers. Results without a call are left out."""
    sites: dict[int, CallSite] = {}
    latest: dict[str, list[CallSite]] = {}
    latest_any: list[CallSite] = []
    for index, element in enumerate(elements):
        if element.calls:
            made = [CallSite(index, call) for call in element.calls]
            latest_any = _extend(latest_any, made, elements)
            for call_id in {call.id for call in element.calls}:
                latest[call_id] = [site for site in made if site.call.id == call_id]
        if element.answers is None:
            continue
        waiting = latest.get(element.answers, []) if element.answers else latest_any
        if waiting:
            # A second result for one call keeps to it; two calls under one id are answered in order.
            sites[index] = waiting.pop(0) if len(waiting) > 1 else waiting[0]
    return sites


def groups(elements: Sequence[Element]) -> list[int]:
    """A group number for each element, counting up from 0. Members of a group are adjacent.

    Never split: a call and its results and what lies between them; a call without any result and
    what follows it; reasoning and the rest of the response it opened; unknown elements that name
    the same id, and an unknown element and the element before it.
    """
    return list(_groups(tuple(elements)))


@lru_cache(maxsize=4)  # one request asks several times about its list; elements compare by identity
def _groups(elements: tuple[Element, ...]) -> tuple[int, ...]:
    joined = [False] * len(elements)  # joined[i]: element i is in the group of element i - 1
    sites = pair_results(elements)
    answered = {site.index for site in sites.values()}
    for index, element in enumerate(elements):
        if index and _continues(elements[index - 1], element):
            joined[index] = True
        if element.calls and index not in answered and index + 1 < len(elements):
            joined[index + 1] = True
    for index, site in sites.items():
        _join(joined, site.index, index)
    for first, last in _references(elements):
        _join(joined, first, last)
    numbers: list[int] = []
    for index, is_joined in enumerate(joined):
        numbers.append(0 if not index else numbers[-1] + (0 if is_joined else 1))
    return tuple(numbers)


def call_ordinals(elements: Sequence[Element]) -> list[int]:
    """For each element the ordinal of its assistant turn: its own or the one before it; 0 before the first."""
    ordinals: list[int] = []
    ordinal = 0
    for index, element in enumerate(elements):
        is_same_response = (
            index > 0 and _is_by_model(elements[index - 1]) and _is_response_part(elements[index - 1], element)
        )
        if _is_by_model(element) and not is_same_response:
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


def _extend(waiting: list[CallSite], made: list[CallSite], elements: Sequence[Element]) -> list[CallSite]:
    """Calls that an answer without an id may mean: those of one response, in order."""
    is_adjacent = bool(waiting) and made[0].index == waiting[-1].index + 1
    if is_adjacent and _is_response_part(elements[waiting[-1].index], elements[made[0].index]):
        return waiting + made
    return made


def _is_result(element: Element) -> bool:
    return element.kind == "tool_result" or element.answers is not None


def _is_by_model(element: Element) -> bool:
    if _is_result(element):
        return False
    return element.role == "assistant" or element.kind in ("tool_call", "reasoning") or bool(element.calls)


def _is_unknown(element: Element) -> bool:
    return element.kind == "opaque" or any(atom.kind == "other" for atom in element.atoms)


def _is_response_part(before: Element, element: Element) -> bool:
    """Both come from one response. Two whole assistant messages in a row do not."""
    is_item = before.kind in ("reasoning", "tool_call") or element.kind in ("reasoning", "tool_call")
    return _is_by_model(before) and _is_by_model(element) and is_item


def _continues(before: Element, element: Element) -> bool:
    if _is_response_part(before, element):
        return True
    if before.kind == "reasoning":
        return True
    if _is_result(element):
        return _is_result(before) or bool(before.calls) or _is_unknown(before)
    return element.kind == "opaque" and before.role not in ("system", "developer")


def _join(joined: list[bool], first: int, last: int) -> None:
    for index in range(first + 1, last + 1):
        joined[index] = True


def _references(elements: Sequence[Element]) -> list[tuple[int, int]]:
    """Spans from the first to the last unknown element that carries one and the same id."""
    unknown = [index for index, element in enumerate(elements) if _is_unknown(element)]
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
