"""Says what an estimate came to: one sentence first, then a line a transcript. Plain text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from proxy.core.display import visible
from proxy.evaluation.estimate.replay import Estimate

_BIGGEST = 5
CAVEAT = (
    "Cache and prices are modelled; the answers are those that were given then. Not in it: what the model would have"
    " fetched again, definitions of tools, and a cache that grew cold while nobody asked."
)


def as_json(found: Sequence[Estimate]) -> dict[str, Any]:
    """Every figure, a call at a time."""
    return {"total": _total(found), "transcripts": [_one(each) for each in found], "note": CAVEAT}


def _total(found: Sequence[Estimate]) -> dict[str, Any]:
    direct, through = _dollars(found)
    return {
        "transcripts": len(found),
        "calls": sum(len(each.calls) for each in found),
        "direct_cost": direct,
        "cost": through,
        "share": through / direct if direct and through is not None else None,
    }


def _one(each: Estimate) -> dict[str, Any]:
    return {
        "name": each.name,
        "model": each.model,
        "calls": [
            {
                "direct_input": call.direct.input, "direct_cached": call.direct.cached,
                "input": call.through.input, "cached": call.through.cached, "output": call.through.output,
                "direct_cost": call.direct_cost, "cost": call.cost, "is_break": call.is_break,
            }
            for call in each.calls
        ],
        "direct_cost": each.direct_cost,
        "cost": each.cost,
        "share": each.share,
        "cliff": each.cliff,
        "crossed_at": each.crossed_at,
        "too_large_at": each.too_large_at,
        "folds": each.folds,
        "skipped_lines": each.skipped,
        "left_out": [asdict(one) for one in each.left],
    }  # fmt: skip


def _dollars(found: Sequence[Estimate]) -> tuple[float, float | None]:
    priced = [each for each in found if each.direct_cost is not None and each.cost is not None]
    if not priced:
        return 0.0, None
    return sum(each.direct_cost or 0.0 for each in priced), sum(each.cost or 0.0 for each in priced)


def text(found: Sequence[Estimate]) -> str:
    """For a terminal, 100 columns."""
    return "\n".join([headline(found), "", *_table(found), "", *_details(found), CAVEAT])


def headline(found: Sequence[Estimate]) -> str:
    direct, through = _dollars(found)
    calls = sum(len(each.calls) for each in found)
    what = f"{len(found)} transcript{'s' if len(found) != 1 else ''} with {calls:,} calls"
    if through is None:
        return f"{what}: no price is known for {', '.join(sorted({each.model for each in found}))}; shares by tokens."
    if direct <= 0 or through >= 0.995 * direct:
        return f"{what} cost {_money(direct)}. undercliff would have changed nothing worth telling."
    return f"{what} cost {_money(direct)}; with undercliff {_money(through)}, {1 - through / direct:.0%} less."


def _table(found: Sequence[Estimate]) -> list[str]:
    rows = [
        f"{'transcript':34} {'calls':>5} {'largest':>9} {'direct':>9} {'through':>9} {'share':>6} {'breaks':>6}  cliff"
    ]
    for each in found:
        largest = max((call.direct.input for call in each.calls), default=0)
        breaks = sum(call.is_break for call in each.calls)
        rows.append(
            f"{visible(each.name)[-34:]:34} {len(each.calls):5} {largest:9,} {_money(each.direct_cost):>9}"
            f" {_money(each.cost):>9} {each.share:6.2f} {breaks:6}  {_cliff(each)}"
        )
    return rows


def _cliff(each: Estimate) -> str:
    if each.too_large_at:
        return f"too large for {each.model} at call {each.too_large_at}"
    if not each.cliff:
        return "none"
    return f"passed at call {each.crossed_at}" if each.crossed_at else "not reached"


def _details(found: Sequence[Estimate]) -> list[str]:
    lines = []
    for each in found:
        if not each.left:
            continue
        forms = Counter(one.form for one in each.left)
        tokens = sum(one.tokens for one in each.left)
        how = ", ".join(f"{count} {form}" for form, count in forms.most_common())
        lines.append(f"{visible(each.name)}: {len(each.left)} items of {tokens:,} tokens left out at some time ({how})")
        for one in sorted(each.left, key=lambda one: -one.tokens)[:_BIGGEST]:
            lines.append(f"  {one.tokens:8,} tokens, {one.form} from call {one.at}: {visible(one.reason)[:60]}")
        if each.skipped:
            lines.append(f"  {each.skipped} lines could not be read and were passed over")
    return [*lines, ""] if lines else []


def _money(dollars: float | None) -> str:
    if dollars is None:
        return "no price"
    return f"${dollars:,.2f}" if dollars >= 0.1 else f"${dollars:.4f}"
