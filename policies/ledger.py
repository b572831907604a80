"""What the money rules remember from call to call: the rent paid, and how far the last two lists went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policies.draft import Draft

RENT = "rent"
SENT = "sent"
SENT_BEFORE = "sent_before"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Policy memory: rent paid so far, and the lengths of the last two lists sent.

    What lies between the two lengths went out in full exactly once, so shortening it re-bills
    nothing that was ever read from the cache.
    """

    rent: float = 0.0
    sent: int = 0
    sent_before: int = 0

    @classmethod
    def read(cls, memory: Mapping[str, float]) -> Ledger:
        return cls(memory.get(RENT, 0.0), int(memory.get(SENT, 0)), int(memory.get(SENT_BEFORE, 0)))

    def memory(self) -> dict[str, float]:
        return {RENT: self.rent, SENT: self.sent, SENT_BEFORE: self.sent_before}

    def advance(self, length: int, rent: float) -> Ledger:
        """The ledger after a list of `length`. The same list again changes nothing."""
        return self if length == self.sent else Ledger(rent, length, min(self.sent, length))


def newest_call(draft: Draft) -> int:
    """Ordinal of the newest assistant turn; the ordinals never go down through a list."""
    return draft.candidates[-1].call if draft.candidates else 0
