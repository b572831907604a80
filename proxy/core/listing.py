"""What follows from a list's elements alone, kept while the list grows: kinds, groups, turns, who answers whom. Pure.

An agent sends the same list with every request, and a little more. So a listing is made from the one
of the shorter list, and only what is new is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from policies.model import Kind
from proxy.core.grouping import CallSite, Pairing, call_ordinals, joins, number
from proxy.core.identity import Path, Step, steps_of
from proxy.core.kinds import kind_of
from proxy.core.model import Element

_LOOK_BACK = 64
"""So many elements a request may add before its list counts as another one."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Listing:
    """A list and what is known of it; all sequences are parallel to `elements`. Shared: nobody may change it."""

    elements: tuple[Element, ...] = ()
    head: int = 0  # leading elements outside the body chain
    kinds: tuple[Kind, ...] = ()
    groups: tuple[int, ...] = ()
    calls: tuple[int, ...] = ()  # ordinals of assistant turns
    first_user: int = -1
    head_steps: tuple[Step, ...] = ()
    path: Path = field(default_factory=Path)  # of what is behind the head
    joined: tuple[bool, ...] = ()
    pairing: Pairing = field(default_factory=Pairing)
    size_bytes: int = 0  # of the elements

    @property
    def sites(self) -> Mapping[int, CallSite]:
        """The call that each result answers."""
        return self.pairing.sites

    @property
    def steps(self) -> Iterator[Step]:
        """All steps, those of the head first."""
        yield from self.head_steps
        yield from self.path.steps

    def step(self, index: int) -> Step:
        return self.head_steps[index] if index < self.head else self.path.steps[index - self.head]

    def extended(self, elements: tuple[Element, ...]) -> Listing:
        """The listing of a list that begins with this one."""
        start = len(self.elements)
        pairing = self.pairing.copy()
        pairing.read(elements, start)
        joined, lowest = joins(elements, pairing.sites, self.joined)
        kinds = (*self.kinds, *map(kind_of, elements[start:]))
        first_user = self.first_user
        if first_user < 0 and "user" in kinds[start:]:
            first_user = kinds.index("user", start)
        return Listing(
            elements=elements,
            head=self.head,
            kinds=kinds,
            groups=_numbered(self.groups, joined, lowest),
            calls=tuple(call_ordinals(elements, self.calls)),
            first_user=first_user,
            head_steps=self.head_steps,
            path=_extended_path(self.path, elements[self.head :]),
            joined=tuple(joined),
            pairing=pairing,
            size_bytes=self.size_bytes + sum([len(element.raw) for element in elements[start:]]),
        )


def absent(ids: Sequence[str], known: Collection[str]) -> list[int]:
    """Indices of the ids that are not in `known`. Fast where there are few: agents send what was sent, and a little."""
    flags = bytes(map(known.__contains__, ids))
    if flags.count(0) > len(flags) // 8:
        return [index for index, is_known in enumerate(flags) if not is_known]
    found: list[int] = []
    index = flags.find(0)
    while index >= 0:
        found.append(index)
        index = flags.find(0, index + 1)
    return found


def listing_of(elements: Sequence[Element], head: int) -> Listing:
    """The listing of a list, from nothing."""
    return Listing(head=head, head_steps=tuple(steps_of(elements[:head]))).extended(tuple(elements))


class Listings:
    """Finds the listing that a list extends. They stay as long as somebody else keeps them."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[int, int, int], Listing] = WeakValueDictionary()

    def of(self, elements: tuple[Element, ...], head: int) -> Listing:
        """The listing of `elements`, of which `head` stand outside the body chain."""
        base = self.base(elements, head)
        if base is None:
            made = listing_of(elements, head)
        elif len(base.elements) == len(elements):
            return base
        else:
            made = base.extended(elements)
        if elements:
            self._known[_place(elements, len(elements))] = made
        return made

    def base(self, elements: tuple[Element, ...], head: int) -> Listing | None:
        """The longest known beginning of the list, if it is not much shorter."""
        for count in range(len(elements), max(head, len(elements) - _LOOK_BACK), -1):
            found = self._known.get(_place(elements, count))
            if found is not None and found.head == head and found.elements == elements[:count]:
                return found
        return None


def _place(elements: Sequence[Element], count: int) -> tuple[int, int, int]:
    """Where a list of so many elements is found; what stands there is compared, so a wrong guess costs nothing."""
    return count, id(elements[count - 1]), id(elements[max(count - 2, 0)])


def _numbered(known: Sequence[int], joined: Sequence[bool], lowest: int) -> tuple[int, ...]:
    if not lowest:
        return tuple(number(joined))
    numbers = list(known[:lowest])
    for is_joined in joined[lowest:]:
        numbers.append(numbers[-1] + (not is_joined))
    return tuple(numbers)


def _extended_path(base: Path, body: Sequence[Element]) -> Path:
    steps = steps_of(body, base.steps)
    count = len(base)
    if all(map(_is_same, steps[max(0, count - 8) : count], base.steps[max(0, count - 8) :])):
        return base.plus(steps[count:])
    return Path(steps)


def _is_same(a: Step, b: Step) -> bool:
    return a is b or a == b
