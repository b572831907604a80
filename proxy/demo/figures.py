"""What a run of the demo found out: one row a model call, and the totals. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from proxy.demo.provider import Served


@dataclass(frozen=True, slots=True)
class Row:
    """One model call, without us and with us. Money is what the call cost; 0 and `error` for a refused one."""

    turn: int
    call: int
    asked: str
    sent: int  # tokens of the agent's whole list
    seen: int  # tokens that the model got through us
    direct: float
    through: float
    direct_error: str = ""
    through_error: str = ""
    is_direct_above: bool = False
    is_through_above: bool = False
    is_rewrite: bool = False
    is_recovered: bool = False  # the provider refused for length, and the agent never saw it


@dataclass(frozen=True, slots=True)
class Arm:
    """One side's account."""

    calls: int
    errors: int
    input: int
    cached: int
    output: int
    bill: float
    above_cliff: int
    breaks: int
    tail_changes: int
    peak: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What the store answered afterwards. Messages are the agent's own, compared with its bytes."""

    messages: int
    found: int
    items: int
    compactions: int
    masked: int
    windows: int
    is_window_proven: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """The totals. The bill covers the turns that both sides finished; the last turn is the overflow."""

    direct: Arm
    through: Arm
    kept: Kept
    recovered: int
    direct_refusals: int
    facts: dict[str, bool]
    seconds: float

    @property
    def share(self) -> float:
        """Our bill as a share of the direct one."""
        return self.through.bill / self.direct.bill if self.direct.bill else 1.0

    @property
    def is_good(self) -> bool:
        """Every word kept, nothing refused to the agent, and the overflow unseen."""
        is_kept = self.kept.found == self.kept.messages and self.kept.is_window_proven
        return is_kept and self.through.errors == 0 and self.recovered > 0

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "share": round(self.share, 4), "is_good": self.is_good}


def sum_up(served: Sequence[Served], errors: int) -> Arm:
    """One key's requests in order."""
    paid = [entry for entry in served if entry.status == 200]
    return Arm(
        calls=len(paid),
        errors=errors,
        input=sum(entry.usage.input for entry in paid),
        cached=sum(entry.usage.cached for entry in paid),
        output=sum(entry.usage.output for entry in paid),
        bill=round(sum(entry.cost for entry in paid), 6),
        above_cliff=sum(entry.is_above_cliff for entry in paid),
        breaks=sum(entry.is_break for entry in paid),
        tail_changes=sum(entry.is_tail_change for entry in paid),
        peak=max((entry.usage.input for entry in paid), default=0),
    )
