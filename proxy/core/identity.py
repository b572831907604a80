"""A conversation as identity sees it: steps, paths, the probe of one request, and deterministic ids.

Pure; decides nothing (that is `placement`). Only strong atoms enter a path's chain, so call ids, reasoning,
item ids and text beside calls never make a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain as concat
from itertools import pairwise
from operator import attrgetter
from weakref import WeakKeyDictionary

import msgspec

from proxy.core.model import Conversation, Element, Hints, ItemKind, Wire

ATOM = 16  # bytes of one atom's hash in a chain
KEPT_TEXT = 200  # characters of a step's text that identity keeps; enough for quoting and prefixes
RECEIPT_TEXT = 12  # shorter texts are no evidence of anything
NODES_KEPT = 256  # hashes of beginnings that a longer path takes over; more than a request looks up
_BESIDE = 3  # so far from a call its text can stand, with reasoning between
STEM_TEXT = 120  # characters of a head that tell one instruction from another

_HASH = attrgetter("hash")
_QUOTED_ID = re.compile(r"\b(?:call|toolu)[_-]?[A-Za-z0-9]{8,64}")
_ID_PREFIX = re.compile(r"^(?:chatcmpl)?(?:functioncall|functions?|call|toolu|tool|fc)", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]+")
_SPACE = re.compile(r"\s+")


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False, omit_defaults=True):
    """One element of a list, reduced to what identity needs. Small, and encodable into an item's row."""

    hash: bytes  # Element.hash: names the content
    chain: bytes  # the strong atoms' hashes, joined; empty when only weak ones
    kind: ItemKind
    role: str
    made: tuple[str, ...] = ()  # anchors of calls made (or quoted, by agents that turn calls into text)
    answered: str = ""
    text: str = ""  # the beginning of the canonical text
    size: int = 0  # of the whole canonical text
    receipt: bytes = b""  # hash of an assistant text long enough to be one
    is_emitted: bool = False  # came out of a reply that went through the proxy
    response: bytes = b""  # hash of the response id whose last element this is
    beside: bytes = b""  # the chain that a text beside calls would have if it stood alone
    kept_in: bytes = b""  # hash of the provider's own conversation that this was the last element of


# The same elements come with every request of a conversation; a step lives as long as its element.
_STEPS: WeakKeyDictionary[Element, Step] = WeakKeyDictionary()
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Step)


def encode_step(step: Step) -> bytes:
    """The compact form for an item's row."""
    return _ENCODER.encode(step)


def decode_step(data: bytes) -> Step:
    """The step that `encode_step` wrote. Raises `msgspec.DecodeError` on anything else."""
    return _DECODER.decode(data)


class Path:
    """A list of steps with the indexes that make comparing it cheap. Immutable by convention.

    `flat` is the chain of all steps; `ends[i]` is where step i ends in it. `strong` leads from a high-entropy
    call id to the first step that carries it. `texts` are assistant texts, `emitted_*` those that the proxy
    itself relayed: only they are receipts, because few-shot examples repeat across conversations. `weak` are
    relayed steps whose call ids are counters.
    """

    __slots__ = (
        "emitted_calls", "emitted_texts", "ends", "flat", "has_calls", "nodes", "responses", "steps", "strong", "texts",
        "weak",
    )  # fmt: skip

    def __init__(self, steps: Sequence[Step] = (), base: Path | None = None) -> None:
        self.steps: tuple[Step, ...] = (*base.steps, *steps) if base else tuple(steps)
        self.ends: list[int] = list(base.ends) if base else []
        self.strong: dict[str, int] = dict(base.strong) if base else {}
        self.texts: set[bytes] = set(base.texts) if base else set()
        self.emitted_calls: set[str] = set(base.emitted_calls) if base else set()
        self.emitted_texts: set[bytes] = set(base.emitted_texts) if base else set()
        self.responses: dict[bytes, int] = dict(base.responses) if base else {}
        self.weak: list[int] = list(base.weak) if base else []
        self.has_calls: bool = base.has_calls if base else False
        self.nodes: dict[int, bytes] = base.recent_nodes() if base else {}  # hashes of beginnings of `flat`, by end
        self.flat: bytes = b"".join(concat((base.flat,) if base else (), (step.chain for step in steps)))
        self._index(len(base.steps) if base else 0, steps)

    def _index(self, position: int, steps: Sequence[Step]) -> None:
        offset = self.ends[-1] if self.ends else 0
        for i, step in enumerate(steps, position):
            offset += len(step.chain)
            self.ends.append(offset)
            if step.answered:
                self.has_calls = True
                if is_strong(step.answered):
                    self.strong.setdefault(step.answered, i)
            if step.made:
                self._index_calls(i, step)
            if step.receipt:
                self.texts.add(step.receipt)
                if step.is_emitted:
                    self.emitted_texts.add(step.receipt)
            if step.response:
                self.responses[step.response] = i
            if step.kept_in:
                self.responses[step.kept_in] = i

    def _index_calls(self, i: int, step: Step) -> None:
        self.has_calls = True
        for anchor in step.made:
            if is_strong(anchor):
                self.strong.setdefault(anchor, i)
                if step.is_emitted:
                    self.emitted_calls.add(anchor)
            elif step.is_emitted and self.weak[-1:] != [i]:
                self.weak.append(i)

    def __len__(self) -> int:
        return len(self.steps)

    def plus(self, steps: Sequence[Step]) -> Path:
        """This path and more steps; cost follows what is added."""
        return Path(steps, self) if steps else self

    def recent_nodes(self) -> dict[int, bytes]:
        """The known hashes, once there are many only the first and the newest."""
        if len(self.nodes) <= NODES_KEPT:
            return dict(self.nodes)
        ends = sorted(self.nodes)
        return {end: self.nodes[end] for end in (*ends[: NODES_KEPT // 8], *ends[-NODES_KEPT // 2 :])}

    def end(self, count: int) -> int:
        """Where the first `count` steps end in `flat`."""
        return self.ends[count - 1] if count else 0


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """One request, ready to be placed. `head_hash` is 8 bytes of its stem (digits left out, so that a clock
    does not matter) and 8 bytes of the whole; `excerpts` are full texts in which a summary or a quotation can stand."""

    tenant: str
    wire: Wire
    model: str
    hints: Hints
    head: int
    head_hash: bytes
    head_text: str
    tools_hash: bytes
    has_tools: bool
    path: Path
    first_user: str = ""
    last_user: str = ""
    excerpts: tuple[str, ...] = ()


def probe(conversation: Conversation, tenant: str, path: Path | None = None) -> Probe:
    """Read a decoded request as identity sees it. `path`: that of what stands behind its head, where it is known."""
    head, body = conversation.elements[: conversation.head], conversation.elements[conversation.head :]
    head_text = "\n".join(filter(None, (conversation.instructions, *(element.text for element in head))))
    heads = (*range(min(8, len(body))), *range(max(8, len(body) - 4), len(body)))
    users = [element.text for element in (*body[:4], *body[-4:]) if element.role == "user"]
    return Probe(
        tenant=tenant,
        wire=conversation.wire,
        model=conversation.model,
        hints=conversation.hints,
        head=conversation.head,
        head_hash=hash_head(head_text),
        head_text=head_text[:400],
        tools_hash=fingerprint(b"tools", conversation.tools) if conversation.has_tools else b"",
        has_tools=conversation.has_tools,
        path=Path(steps_of(body)) if path is None else path,
        first_user=users[0] if users else "",
        last_user=users[-1] if users else "",
        excerpts=tuple(_canonical_text(body[i]) for i in heads if body[i].role in ("user", "assistant")),
    )


def steps_of(elements: Sequence[Element], known: Sequence[Step] = ()) -> list[Step]:
    """The steps of a list. Assistant text beside calls in its own element is weak, as it is inside one element.

    `known` are the steps of the list when it was shorter; what follows may change the last of them.
    """
    start = max(0, len(known) - _BESIDE)
    plain = max(0, start - _BESIDE)
    bare = [_bare_step(element) for element in elements[plain:]]
    steps = list(known[:start])
    for i in range(start - plain, len(bare)):
        steps.append(_in_list(bare, i))
    return steps


def listed(steps: Sequence[Step]) -> list[Step]:
    """Steps that were stored one by one, as they are in this list: text alone in one stands by calls in another."""
    return [_in_list(steps, i) for i in range(len(steps))]


def _in_list(steps: Sequence[Step], i: int) -> Step:
    step = steps[i]
    alone = step.chain or step.beside
    if step.role != "assistant" or step.kind != "message" or not alone:
        return step
    chain, beside = (b"", alone) if _is_beside_calls(steps, i) else (alone, b"")
    return step if step.chain == chain else msgspec.structs.replace(step, chain=chain, beside=beside)


def _bare_step(element: Element) -> Step:
    step = _STEPS.get(element)
    if step is None:
        step = _STEPS[element] = _step(element)
    return step


def emitted(elements: Sequence[Element], response_id: str = "", kept_in: str = "") -> list[Step]:
    """The steps of a reply that the proxy relayed; `kept_in`: the conversation in which the provider keeps it."""
    steps = [msgspec.structs.replace(step, is_emitted=True) for step in steps_of(elements)]
    if steps and response_id:
        steps[-1] = msgspec.structs.replace(steps[-1], response=hash_response(response_id))
    if steps and kept_in:
        steps[-1] = msgspec.structs.replace(steps[-1], kept_in=hash_response(kept_in))
    return steps


def _step(element: Element) -> Step:
    chain, answered, text, receipt, has_call = b"", "", "", b"", False
    made: tuple[str, ...] = ()
    for atom in element.atoms:
        if not atom.is_weak:
            chain += atom.hash
        kind = atom.kind
        if kind == "call":
            has_call = True
            if atom.anchor:
                made = (*made, atom.anchor)
        elif kind == "result":
            answered = answered or atom.anchor
        elif kind == "other" and atom.anchor:
            made = (*made, atom.anchor)
        if atom.text and not text and kind not in ("call", "reasoning"):
            text = atom.text
            if kind == "asst" and len(text) >= RECEIPT_TEXT:
                receipt = atom.hash
    if receipt and not has_call:
        made = quoted_ids(text)
    return Step(
        hash=element.hash,
        chain=chain,
        kind=element.kind,
        role=element.role,
        made=made,
        answered=answered,
        text=text[:KEPT_TEXT],
        size=len(text),
        receipt=receipt,
    )


def _is_beside_calls(steps: Sequence[Step], i: int) -> bool:
    following = _nearest(steps[i + 1 : i + 1 + _BESIDE])
    return following == "tool_call" or _nearest(steps[max(0, i - _BESIDE) : i][::-1]) == "tool_call"


def _nearest(steps: Sequence[Step]) -> str:
    for step in steps:
        if step.kind != "reasoning":
            return step.kind
    return ""


def _canonical_text(element: Element) -> str:
    return next((atom.text for atom in element.atoms if atom.text), element.text)


def quoted_ids(text: str) -> tuple[str, ...]:
    """Call ids that a text spells out, reduced like anchors: some agents re-send their calls as text."""
    if "call" not in text and "toolu" not in text:
        return ()
    found = (re.sub(r"[^A-Za-z0-9]", "", match) for match in _QUOTED_ID.findall(text))
    return tuple(dict.fromkeys(anchor for anchor in found if is_strong(anchor)))


@lru_cache(maxsize=65536)
def is_strong(anchor: str) -> bool:
    """Whether a call id is random enough to be evidence alone (`call_0` and `functions.search:12` are not)."""
    tail = _ID_PREFIX.sub("", anchor)
    if len(tail) < 8 or len(set(tail)) < 5:
        return False
    if tail.isdigit():
        return len(tail) >= 12
    changes = sum(_character_class(a) != _character_class(b) for a, b in pairwise(tail))
    return changes >= 2


def _character_class(character: str) -> int:
    return 0 if character.isdigit() else 1 if character.islower() else 2


# -- hashes and ids ----------------------------------------------------------------------------------


def fingerprint(*parts: bytes | str, size: int = 16) -> bytes:
    """A hash over parts, each with its length, so that no two lists of parts agree by accident."""
    hasher = blake2b(digest_size=size)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "big") + data)
    return hasher.digest()


def hash_response(response_id: str) -> bytes:
    return fingerprint("response", response_id)


def hash_head(text: str) -> bytes:
    """8 bytes of the stem, 8 of the whole."""
    stem = _SPACE.sub(" ", _DIGITS.sub("", text[: 2 * STEM_TEXT]))[:STEM_TEXT]
    return fingerprint("stem", stem, size=8) + fingerprint("head", text, size=8)


_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = tuple(a + b for a in _BASE32 for b in _BASE32)


def short_id(*parts: bytes | str) -> str:
    """12 lower-case base32 characters (60 bits) over the parts."""
    bits = int.from_bytes(fingerprint(*parts, size=8), "big") >> 4
    pairs = _PAIRS
    return (
        pairs[bits >> 50] + pairs[bits >> 40 & 1023] + pairs[bits >> 30 & 1023]
        + pairs[bits >> 20 & 1023] + pairs[bits >> 10 & 1023] + pairs[bits & 1023]
    )  # fmt: skip


def forced_conversation(tenant: str, name: str) -> str:
    """The conversation that a client names itself."""
    return short_id("conversation", tenant, "forced", name)


@lru_cache(maxsize=65536)  # a client repeats its whole list on every call
def item_id(conversation: str, element_hash: bytes, occurrence: int) -> str:
    """The same content at the same occurrence in a conversation is the same item."""
    return short_id("item", conversation, element_hash, str(occurrence))


def item_ids(
    conversation: str, elements: Iterable[Element | Step], *, before: Iterable[Element | Step] = ()
) -> list[str]:
    """Ids of a list's items, in order. `before` is what stands ahead of them and is numbered already."""
    listed = tuple(elements)
    counts: dict[bytes, int] = {}
    wanted = frozenset(map(_HASH, listed))
    for known in filter(wanted.__contains__, map(_HASH, before)):
        counts[known] = counts.get(known, 0) + 1
    ids = []
    for element in listed:
        occurrence = counts.get(element.hash, 0)
        counts[element.hash] = occurrence + 1
        ids.append(item_id(conversation, element.hash, occurrence))
    return ids


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """A list with its items' ids, kept for the longer list that comes next."""

    conversation: str
    elements: tuple[Element, ...]
    ids: tuple[str, ...]


def number_items(conversation: str, elements: tuple[Element, ...], known: Numbered | None = None) -> Numbered:
    """The ids of a whole list. Those of the shorter list that it begins with are taken from there."""
    count = len(known.elements) if known is not None else 0
    if known is None or known.conversation != conversation or elements[:count] != known.elements:
        return Numbered(conversation, elements, tuple(item_ids(conversation, elements)))
    if count == len(elements):
        return known
    fresh = item_ids(conversation, elements[count:], before=known.elements)
    return Numbered(conversation, elements, (*known.ids, *fresh))
