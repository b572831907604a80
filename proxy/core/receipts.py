"""Receipts: the short keys that lead from content back to the branches that hold it.

A key only finds candidates; `placement` checks them. The number of keys is bounded, whatever the list's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from operator import attrgetter

from proxy.core.identity import (
    Path,
    Probe,
    Step,
    fingerprint,
    hash_response,
    is_strong,
    quoted_ids,
)

Key = tuple[str, bytes]

CALLS = 256  # newest call ids looked up
NODES = 96  # newest ends of steps looked up
FIRST = 8  # steps at the front that are looked up too
TEXTS = 64  # newest assistant texts looked up
LINES = 192  # lines of possible quotations looked up
LINE = 16  # shorter lines are no evidence
LINE_KEPT = 80  # characters of a line that count
STORED_LINES = 6  # of one text

_RECEIPT = attrgetter("receipt")
_MARKUP = re.compile(r"^(?:\s*<[^<>]{1,80}>)*|(?:</[^<>]{1,40}>\s*)*$")
_SPEAKER = re.compile(r"^[\[<(*]{0,2}[A-Za-z][A-Za-z ]{0,15}[\]>)*]{0,2}:[*]{0,2}\s+")


def keys(probe: Probe) -> tuple[Key, ...]:
    """What to look up for a request, most telling first."""
    found: dict[Key, None] = {}
    hints = probe.hints
    if hints.behind:
        found["response", hash_response(hints.behind)] = None
    for key in _call_keys(probe.path.steps, newest=CALLS) if probe.path.has_calls else ():
        found[key] = None
    for key in _node_keys(probe.path):
        found[key] = None
    steps = probe.path.steps
    first = islice(filter(None, map(_RECEIPT, steps)), 4)
    last = [*islice(filter(None, map(_RECEIPT, reversed(steps))), TEXTS)]
    for text in (*first, *reversed(last)):
        found["text", text] = None
    for key in _quotation_keys(probe.excerpts):
        found[key] = None
    for scope in (hints.scope, hints.parent_scope):
        if scope:
            found[scope_key(scope)] = None
    return tuple(found)


def new_keys(path: Path, start: int, scope: str = "") -> tuple[Key, ...]:
    """The keys to keep for a branch whose path is new from `start` on: a placement's `lcp`, or a view's `sent`."""
    steps = path.steps[start:]
    found: dict[Key, None] = {}
    before = path.steps[start - 1].chain[-16:] if start else b""
    for key in _call_keys(steps, newest=4 * CALLS, before=before) if path.has_calls else ():
        found[key] = None
    for step in steps:
        if step.response:
            found["response", step.response] = None
        if step.kept_in:
            found["response", step.kept_in] = None
        if step.is_emitted and step.receipt:
            found["text", step.receipt] = None
        if _has_lines(step):
            found.update(dict.fromkeys(_stored_lines(step.text, step.size)))
    if path.flat:
        found["node", _hash_node(path.flat)] = None
    if scope:
        found[scope_key(scope)] = None
    return tuple(found)


def scope_key(scope: str) -> Key:
    """Branches of a scope are found like any other receipt."""
    return "scope", fingerprint("scope", scope)


def _call_keys(steps: Sequence[Step], *, newest: int, before: bytes = b"") -> Iterator[Key]:
    pairs = []
    if len(steps) > 4 * newest:
        steps = (*steps[: 4 * FIRST], *steps[-3 * newest :])
    for step in steps:
        for anchor in (*step.made, *((step.answered,) if step.answered else ())):
            if is_strong(anchor):
                pairs.append((anchor, b""))
            elif step.made:
                pairs.append((anchor, before + step.chain))
        before = step.chain[-16:] or before
    seen: set[str] = set()
    for anchor, context in (*pairs[:FIRST], *pairs[-newest:]):
        if context or anchor not in seen:
            seen.add(anchor)
            # A counter-like id says nothing alone: what it calls and what stands before it must agree too.
            yield "call", fingerprint("call", anchor, context)


def _node_keys(path: Path) -> Iterator[Key]:
    count = len(path)
    positions = sorted({*range(min(FIRST, count)), *range(max(0, count - NODES), count)})
    hasher, hashed, done = blake2b(b"node", digest_size=16), 0, 0
    ends, flat, nodes = path.ends, path.flat, path.nodes
    for position in positions:
        end = ends[position]
        if end <= done:
            continue
        node = nodes.get(end)
        if node is None:
            hasher.update(flat[hashed:end])
            hashed = end
            node = nodes[end] = hasher.copy().digest()
        done = end
        yield "node", node


def _hash_node(flat: bytes) -> bytes:
    hasher = blake2b(b"node", digest_size=16)
    hasher.update(flat)
    return hasher.digest()


def prepare(steps: Iterable[Step]) -> None:
    """Make the keys of these steps ahead, where it holds nobody up: in another thread."""
    for step in steps:
        if _has_lines(step):
            _stored_lines(step.text, step.size)


def _has_lines(step: Step) -> bool:
    return step.role in ("user", "assistant") and step.kind != "tool_result" and step.size >= LINE


@lru_cache(maxsize=16_384)
def _stored_lines(text: str, size: int) -> tuple[Key, ...]:
    *lines, last = (line.strip() for line in text.split("\n"))
    if size == len(text) or len(last) >= LINE_KEPT:
        lines.append(last)
    lines = [line[:LINE_KEPT] for line in lines if len(line) >= LINE]
    return tuple(map(_line_key, dict.fromkeys((*lines[: STORED_LINES // 2], *lines[-STORED_LINES // 2 :]))))


def _quotation_keys(excerpts: Iterable[str]) -> Iterator[Key]:
    lines: dict[str, None] = {}
    ids: dict[str, None] = {}
    for excerpt in excerpts:
        read = _quotable(excerpt) if len(excerpt) <= 40_000 else _quotable.__wrapped__(excerpt)
        lines.update(read[0])
        ids.update(read[1])
    chosen = list(lines)
    for line in dict.fromkeys((*chosen[: LINES // 2], *chosen[-LINES // 2 :])):
        yield _line_key(line)
    for anchor in list(ids)[-TEXTS:]:
        yield "call", fingerprint("call", anchor, b"")


@lru_cache(maxsize=512)  # the same few texts come with every request of a conversation
def _quotable(excerpt: str) -> tuple[dict[str, None], dict[str, None]]:
    """What of a text may be a line or a call id of somewhere else."""
    shown = excerpt if len(excerpt) <= 40_000 else excerpt[:20_000] + "\n" + excerpt[-20_000:]
    lines = dict.fromkeys([form for line in shown.split("\n") for form in _bare_forms(line)])
    return lines, dict.fromkeys(quoted_ids(shown))


def _bare_forms(line: str) -> Iterator[str]:
    """The line, and what it quotes without markup and speaker."""
    line = line.strip()
    if len(line) < LINE:
        return
    yield line
    bare = _without_markup(line[:2000]).strip()
    spoken = _without_markup(_SPEAKER.sub("", bare)).strip()
    for form in (bare, spoken, spoken.strip("\"'`“”")):
        if form != line and len(form) >= LINE:
            yield form


def _without_markup(line: str) -> str:
    return _MARKUP.sub("", line) if "<" in line else line


def _line_key(line: str) -> Key:
    return _short_line_key(line[:LINE_KEPT])


@lru_cache(maxsize=8_192)
def _short_line_key(line: str) -> Key:
    return "text", fingerprint("line", line)
