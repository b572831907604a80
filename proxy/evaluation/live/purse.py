"""How much may be spent, and what has been. A call that could exceed it is not made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from proxy.core.model import Usage
from proxy.core.pricing import ModelFacts, cost
from proxy.errors import InputError, UndercliffError

MARGIN = 1.3
"""The provider counts in its own way: what one call may cost at most is reckoned with so many times our count."""


class CostReachedError(UndercliffError):
    """The next call could cost more than is left."""


@dataclass(slots=True)
class Purse:
    """Dollars, for all threads. `limit` None means that nothing stops it; calls under way count at their most.

    `book` is told of every payment.
    """

    facts: ModelFacts
    limit: float | None = None
    spent: float = 0.0
    book: Callable[[float], object] | None = None
    _held: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def paying(self, tokens: int, most_output: int) -> Iterator[list[Usage]]:
        """For one call: usages put into the list are paid for when it ends. Raises `CostReachedError` before it."""
        most = cost(Usage(round(tokens * MARGIN), most_output), self.facts) or 0.0
        with self._lock:
            if self.limit is not None and self.spent + self._held + most > self.limit:
                raise CostReachedError(
                    f"the next call could cost ${most:.4f}, and ${self.spent:.4f} of ${self.limit:.2f} are spent",
                    hint="Everything done so far is kept. Raise the limit and run it again to go on.",
                )
            self._held += most
        bills: list[Usage] = []
        try:
            yield bills
        finally:
            with self._lock:
                self._held -= most
                paid = sum(cost(usage, self.facts) or 0.0 for usage in bills)
                self.spent += paid
                if self.book is not None and paid:
                    self.book(paid)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A file of payments, one a line: a series that goes on another day has one limit all the same."""

    path: Path

    def total(self) -> float:
        """Raises `InputError` for what is no ledger."""
        try:
            lines = self.path.read_text("utf-8").split() if self.path.exists() else []
            return sum(float(line) for line in lines)
        except (ValueError, OSError) as error:
            raise InputError(
                f"{self.path} cannot be read as payments: {error}", hint="Mend that line, or name another folder."
            ) from error

    def add(self, paid: float) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{paid:.9f}\n")
