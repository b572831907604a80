"""What replies held that the client did not see, put back into the lists it sends: calls and results in pairs. Pure.

The client's items stay what identity knows; what is put back has ids of its own, and stands or goes with the item of
the client that it is anchored to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec

from proxy.core.identity import short_id
from proxy.core.model import Conversation, Element, Frame, Wire


class Late(msgspec.Struct, frozen=True, array_like=True):
    """The result of a hidden call beside the client's own: it follows the results of the calls before it."""

    item: str
    calls: tuple[str, ...]


class Hidden(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What stands around one item of the client: hidden items by id, in order."""

    wire: str
    anchor: str
    before: tuple[str, ...] = ()
    own: str = ""  # what the provider said, where the client's item joins several replies or lacks a call
    after: tuple[str, ...] = ()
    late: tuple[Late, ...] = ()

    @property
    def items(self) -> tuple[str, ...]:
        """All hidden items of it."""
        own = (self.own,) if self.own else ()
        return (*self.before, *own, *self.after, *(late.item for late in self.late))


@dataclass(frozen=True, slots=True)
class Spoken:
    """One upstream call of a reply, as kept: its elements and, of hidden calls, the results.

    `ids` are parallel to `elements`; an element that the client sees as it is has none ("").
    `befores` are parallel to `results`: ids of the client's calls in front of each hidden one.
    """

    elements: tuple[Element, ...]
    ids: tuple[str, ...]
    results: tuple[Element, ...] = ()
    result_ids: tuple[str, ...] = ()
    befores: tuple[tuple[str, ...], ...] = ()


def hidden_id(conversation: str, exchange: str, number: int) -> str:
    """The id of a hidden item: nothing the client sends can have it."""
    return short_id("hidden", conversation, exchange, str(number))


def anchored(wire: Wire, spoken: Sequence[Spoken], visible: Sequence[str], last: str) -> tuple[Hidden, ...]:
    """Where the hidden items of a reply stand. `visible`: ids of the client's items of it; `last`: the one before."""
    return _chat(spoken, visible, last) if wire == "chat" else _responses(spoken, visible, last)


def _chat(spoken: Sequence[Spoken], visible: Sequence[str], last: str) -> tuple[Hidden, ...]:
    """One message of the client joins all rounds: those before the last stand in front of it."""
    *rounds, end = spoken
    front = tuple(item for part in rounds for item in (*part.ids, *part.result_ids) if item)
    late = _late(end)
    own = next((item for item in end.ids if item), "")
    if not visible:
        rest = (own,) if own and late else ()
        return (Hidden("chat", last, after=(*front, *rest), late=late),) if front or late else ()
    if not (front or own):
        return ()
    return (Hidden("chat", visible[0], before=front, own=own, late=late),)


def _responses(spoken: Sequence[Spoken], visible: Sequence[str], last: str) -> tuple[Hidden, ...]:
    """The client's items stay; each hidden one stands behind the visible one before it."""
    after: dict[str, list[str]] = {}
    seen = list(visible)
    anchor = last
    *rounds, end = spoken
    for part in spoken:
        for item in part.ids:
            if item:
                after.setdefault(anchor, []).append(item)
            elif seen:
                anchor = seen.pop(0)
        if part in rounds:
            after.setdefault(anchor, []).extend(part.result_ids)
    late = _late(end)
    if late:
        after.setdefault(anchor, [])
    return tuple(
        Hidden("responses", item, after=tuple(items), late=late if item == anchor else ())
        for item, items in after.items()
    )


def _late(end: Spoken) -> tuple[Late, ...]:
    return tuple(Late(item, calls) for item, calls in zip(end.result_ids, end.befores, strict=True))


def restored(
    conversation: Conversation,
    ids: Sequence[str],
    hidden: Sequence[Hidden],
    known: Mapping[str, Element],
    folded: Collection[str] = (),
) -> tuple[Conversation, tuple[str, ...]] | None:
    """The client's list with what was hidden from it, and the ids of all; None when nothing belongs into it.

    What is anchored to a folded item went into the fold with it.
    """
    wanted = {
        entry.anchor: entry
        for entry in hidden
        if entry.wire == conversation.wire and entry.anchor not in folded and all(item in known for item in entry.items)
    }
    present = [item for item in ids if item in wanted]
    if not present or ids.index(present[0]) < conversation.head - 1:
        return None
    builder = _Builder(conversation.wire, known)
    for index, (element, item) in enumerate(zip(conversation.elements, ids, strict=True)):
        builder.add(index, element, item, wanted.get(item))
    builder.close()
    elements = tuple(element for element, _, _ in builder.out)
    own = frozenset(item for _, item, index in builder.out if index is None)
    frame = _gapped(conversation.frame, [index for _, _, index in builder.out])
    extended = replace(conversation, elements=elements, frame=frame, hidden=conversation.hidden | own)
    return extended, tuple(item for _, item, _ in builder.out)


class _Builder:
    """The extended list: elements, ids, and the client's index of each (None: hidden)."""

    def __init__(self, wire: str, known: Mapping[str, Element]) -> None:
        self._wire = wire
        self._known = known
        self._late: list[tuple[str, set[str]]] = []
        self.out: list[tuple[Element, str, int | None]] = []

    def add(self, index: int, element: Element, item: str, entry: Hidden | None) -> None:
        if element.kind == "tool_result":
            self._flush(is_all=False)
        elif self._wire == "chat" or element.kind != "tool_call":
            self._flush(is_all=True)
        if entry is not None:
            self._put(entry.before)
        own = self._known[entry.own] if entry is not None and entry.own else element
        self.out.append((own, item, index))
        if element.answers is not None:
            for _, calls in self._late:
                calls.discard(element.answers)
            self._flush(is_all=False)
        if entry is not None:
            self._put(entry.after)
            self._late += [(late.item, set(late.calls)) for late in entry.late]

    def close(self) -> None:
        self._flush(is_all=True)

    def _put(self, items: Sequence[str]) -> None:
        self.out += [(self._known[item], item, None) for item in items]

    def _flush(self, *, is_all: bool) -> None:
        """Put what waits for nothing any more, in the order of the calls."""
        while self._late and (is_all or not self._late[0][1]):
            self._put([self._late.pop(0)[0]])


def _gapped(frame: Frame, sources: Sequence[int | None]) -> Frame:
    gaps = []
    for before, after in pairwise(sources):
        is_neighbour = before is not None and after == before + 1
        gaps.append(frame.gaps[before] if is_neighbour and before is not None else b",")
    return Frame(frame.prefix, tuple(gaps), frame.suffix)


def continued(conversation: Conversation, elements: Sequence[Element], hidden: Sequence[str]) -> Conversation:
    """The list with more elements behind it, of which the client does not see `hidden`: the next round of a reply."""
    frame = conversation.frame
    gaps = (*frame.gaps, *(b"," for _ in elements))
    return replace(
        conversation,
        elements=(*conversation.elements, *elements),
        frame=Frame(frame.prefix, gaps, frame.suffix),
        hidden=conversation.hidden.union(hidden),
    )
