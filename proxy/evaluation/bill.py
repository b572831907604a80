"""What calls cost under a price model, and that as a share of what they would have cost without the proxy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy.evaluation.results import CallBill, TaskResult

OUTPUT = 8.0  # the price of an output token in input tokens
CLIFF_INPUT = 2.0
CLIFF_OUTPUT = 1.5


@dataclass(frozen=True, slots=True)
class PriceModel:
    """Prices in those of an uncached input token.

    Answers cost the same under every policy, so only those that are ours (expand calls) count; with a cliff all do.
    `cliff` is a share of the largest direct call: above it every token of the call is dearer.
    """

    name: str
    cached: float
    written: float = 1.0
    output: float = OUTPUT
    cliff: float = 0.0

    def bill(self, calls: Iterable[CallBill], above: float = 0.0) -> float:
        """In uncached input tokens. `above`: tokens where the cliff is; 0 for none."""
        total = 0.0
        for call in calls:
            is_above = bool(above) and call.input > above
            cost = call.cached * self.cached + (call.input - call.cached) * self.written
            total += cost * (CLIFF_INPUT if is_above else 1.0)
            if call.is_expand or above:
                total += call.output * self.output * (CLIFF_OUTPUT if is_above else 1.0)
        return total

    def bills(self, result: TaskResult) -> tuple[float, float] | None:
        """What it cost, and what it would have cost without; None where it did not come to its end."""
        if result.error or not result.calls or not result.direct_calls:
            return None
        above = self.cliff * max(call.input for call in result.direct_calls)
        direct = self.bill(result.direct_calls, above)
        return (self.bill(result.calls, above), direct) if direct else None


PRICE_MODELS = (
    PriceModel("cached 0.05", 0.05),
    PriceModel("cached 0.1", 0.1),
    PriceModel("cached 0.25", 0.25),
    PriceModel("cached 0.5", 0.5),
    PriceModel("no cache price", 1.0),
    PriceModel("0.1, writes 1.25", 0.1, written=1.25),
    PriceModel("0.1, cliff at half", 0.1, cliff=0.5),
)
DEFAULT_PRICES = PRICE_MODELS[1]


@dataclass(frozen=True, slots=True)
class Share:
    """Shares of the direct bill over some runs: of all money, the mean run's, the worst run's; and how many runs."""

    total: float
    mean: float
    worst: float
    runs: int


def share(results: Sequence[TaskResult], prices: PriceModel) -> Share | None:
    """None where no run can be billed."""
    pairs = [pair for result in results if (pair := prices.bills(result)) is not None]
    if not pairs:
        return None
    ratios = [ours / direct for ours, direct in pairs]
    total = sum(ours for ours, _ in pairs) / sum(direct for _, direct in pairs)
    return Share(total, sum(ratios) / len(ratios), max(ratios), len(ratios))
