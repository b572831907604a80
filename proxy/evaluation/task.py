"""What the matrix runs: anything with a name that can be played under a policy at a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from proxy.errors import ConfigError
from proxy.evaluation.results import TaskResult

NAMED = {"full": 1.0, "half": 0.5, "quarter": 0.25}


class Task(Protocol):
    """Can be sent to another process. `digest` changes with what the task is, so that old results are not taken."""

    @property
    def name(self) -> str: ...

    @property
    def family(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def digest(self) -> str: ...

    def run(self, policy: str, budget: Budget) -> TaskResult: ...


@dataclass(frozen=True, slots=True)
class Budget:
    """A share of a task's own length, or tokens. `name` is how it was asked for."""

    name: str
    share: float = 0.0
    tokens: int = 0

    def of(self, pinned: int, whole: int) -> int:
        """Tokens for a run of `whole` tokens whose `pinned` first ones are always there."""
        return self.tokens or pinned + round(self.share * (whole - pinned))


def budget(name: str) -> Budget:
    """`full`, `half`, `quarter`, or a number of tokens such as 8000 or 8K. Raises `ConfigError`."""
    if name in NAMED:
        return Budget(name, share=NAMED[name])
    digits, factor = (name[:-1], 1000) if name[-1:] in ("k", "K") else (name, 1)
    if digits.isascii() and digits.isdecimal() and 0 < int(digits) < 10**7:
        return Budget(name, tokens=int(digits) * factor)
    raise ConfigError(f"there is no budget {name!r}", hint="Use full, half, quarter, or tokens such as 8000 or 32K.")
