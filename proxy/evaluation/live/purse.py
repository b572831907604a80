"""How much may be spent, and what has been. A call that could exceed it is not made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from proxy.core.model import Usage
from proxy.core.pricing import ModelFacts, cost
from proxy.errors import UndercliffError

MARGIN = 1.3
"""The provider counts in its own way: what one call may cost at most is reckoned with so many times our count."""


class CostReachedError(UndercliffError):
    """The next call could cost more than is left."""


@dataclass(slots=True)
class Purse:
    """Dollars, for all threads. `limit` None means that nothing stops it; calls under way count at their most."""

    facts: ModelFacts
    limit: float | None = None
    spent: float = 0.0
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
                self.spent += sum(cost(usage, self.facts) or 0.0 for usage in bills)
