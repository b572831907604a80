"""What makers of shorter texts are told of a list, and what they say of it: deltas, excerpts, stale marks, citations.

How to add one: write a class with `read` in a core module of its own, and name it in
`readers.MAKERS`. Of several offers for one item the first maker's is taken,
so lossless ones come first. One object reads one list from its start, every item once, in order; it
is kept while the list only grows and made anew when it does not. So `read` may remember what it
needs of earlier items, and must depend on nothing but the items read so far. Nothing is offered
where no maker is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from policies.model import ExcerptKind
from proxy.core.model import Call, Element


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """One item of a list as a maker sees it. `call` is the one that it answers, `argument` that call's key argument."""

    id: str
    index: int
    element: Element
    call: Call | None = None
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """What can stand for an item in `Form.EXCERPT`: texts parallel to `Element.texts`, None where one stays.

    `bases` are ids of items that a delta refers to. An offer that saves no tokens is dropped.
    """

    kind: ExcerptKind
    texts: tuple[str | None, ...]
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """What a maker says when it has read an item. `stale` are ids of earlier items that this one makes stale.

    `ends_subtask`: some work is finished with it, so that a history may be cut behind it; `steps` are
    ids of the earlier results that it stands for from now on.
    """

    offer: Offer | None = None
    cites: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    ends_subtask: bool = False
    steps: tuple[str, ...] = ()


class Maker(Protocol):
    """Reads one list."""

    def read(self, item: Listed) -> Note | None: ...


MakeMaker = Callable[[], Maker]


class KeepRenderer(Protocol):
    """An item's text with only the segments `keep` of `policies.segments.split(text)`: header line, lines, gaps."""

    def __call__(self, text: str, keep: tuple[int, ...], *, id: str, tool: str, failed: bool, argument: str) -> str: ...
