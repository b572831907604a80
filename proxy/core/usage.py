"""Usage as reports of it arrive: a field may be absent, and the last value of each field counts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.core.model import Usage


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What one chunk said. None: not reported, which is not zero."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    written: int | None = None
    reasoning: int | None = None
    cost: float | None = None


def merge(old: UsageReport | None, new: UsageReport | None) -> UsageReport | None:
    """Field by field, the newer figure wins: running totals are reported again, never added up."""
    if old is None or new is None:
        return new or old
    return UsageReport(
        old.input if new.input is None else new.input,
        old.output if new.output is None else new.output,
        old.cached if new.cached is None else new.cached,
        old.written if new.written is None else new.written,
        old.reasoning if new.reasoning is None else new.reasoning,
        old.cost if new.cost is None else new.cost,
    )


def total(report: UsageReport | None) -> Usage | None:
    """The billed usage, or None when neither input nor output was ever reported."""
    if report is None or (report.input is None and report.output is None):
        return None
    return Usage(
        input=report.input or 0,
        output=report.output or 0,
        cached=report.cached or 0,
        written=report.written or 0,
        reasoning=report.reasoning or 0,
        cost=report.cost,
    )


def add(first: Usage | None, second: Usage | None) -> Usage | None:
    """The sum over several upstream calls that answered one request."""
    if first is None or second is None:
        return first or second
    costs = [usage.cost for usage in (first, second) if usage.cost is not None]
    return Usage(
        input=first.input + second.input,
        output=first.output + second.output,
        cached=first.cached + second.cached,
        written=first.written + second.written,
        reasoning=first.reasoning + second.reasoning,
        cost=sum(costs) if costs else None,
        is_estimated=first.is_estimated or second.is_estimated,
    )
