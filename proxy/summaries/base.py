"""What a summarizer gets and gives. It writes about one segment's originals; it never sees an earlier summary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from proxy.core.digest import DigestItem
from proxy.core.headers import RawHeaders
from proxy.core.model import Usage
from proxy.errors import UndercliffError


@dataclass(frozen=True, slots=True)
class Material:
    """One closed segment, or all of a fold's beginning, in the originals' own words; `raws` as they came."""

    items: tuple[DigestItem, ...]
    raws: tuple[bytes, ...] = ()

    @property
    def chars(self) -> int:
        return sum(len(item.text) + sum(len(call.arguments) for call in item.calls) for item in self.items)


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf: the client's own credentials, for a summarizer that goes to the same provider."""

    model: str
    headers: RawHeaders = field(default_factory=list, repr=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """What came back, before anyone has looked at it."""

    text: str
    finish: str = "stop"
    has_calls: bool = False
    has_reasoning: bool = False
    is_refusal: bool = False
    model: str = ""
    usage: Usage | None = None
    cost: float | None = None
    is_sealed: bool = False  # the text is an element that only the provider can read


class SummarizerError(UndercliffError):
    """No draft could be had. `retry_after_s` is what the provider asks for, 0 when it says nothing."""

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Summarizer(Protocol):
    """`name` and `version` are part of what a summary is kept under: change them and it is made anew.

    `seals`: it gets the beginning of a fold at one stroke, and gives an element that stands for all of it.
    """

    name: str
    version: str
    seals: bool

    async def summarize(self, material: Material, caller: Caller) -> Draft:
        """Raises `SummarizerError`."""
        ...
