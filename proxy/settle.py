"""What the end of a reply means for its branch: outcome, usage, the reply's items, the window that now stands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.background import RUNNING
from proxy.core.branches import LastOutcome, finish
from proxy.core.caching import is_break
from proxy.core.grouping import groups
from proxy.core.hidden import anchored
from proxy.core.identity import emitted, item_ids
from proxy.core.model import Reply, Usage
from proxy.core.pricing import cost, direct_cost
from proxy.core.receipts import new_keys
from proxy.core.records import Batch, KeyRow, OutcomeRow, WindowRow
from proxy.fold_rows import accept
from proxy.live import Live, LiveBranches
from proxy.models import ModelBook
from proxy.recording import item_rows, merge, now, path_row
from proxy.relay import Opening
from proxy.rounds import Rounded
from proxy.turn import Turn, ahead_of
from proxy.turn_rows import lost_rows

KEPT_NAMES = 64
"""So many replies in several rounds are known by name to a branch; a client goes on from the newest."""


@dataclass(frozen=True, slots=True)
class End:
    """How an exchange ended: ok, incomplete, error, overflow, cancelled or interrupted."""

    outcome: str
    status: int
    error: str = ""
    attempts: int = 0
    first_byte_ms: float = 0.0
    duration_ms: float = 0.0


def outcome_only(exchange: str, end: End, opening: Opening | None) -> Batch:
    """The outcome of a request that was passed as it came and belongs to no branch."""
    usage = opening.reader.reply().usage if opening is not None else None
    return Batch(outcomes=(_outcome_row(exchange, end, usage or Usage(0, 0), "", None, None, 0, ()),))


def settle(
    turn: Turn,
    end: End,
    reply: Reply | None,
    window: WindowRow,
    tenant: str,
    live_branches: LiveBranches,
    models: ModelBook,
    rounds: Sequence[Rounded] = (),
) -> Batch:
    """Move the branch on in memory and return the rows that say so. `rounds`: what of the reply stayed hidden."""
    live, placement = turn.live, turn.placement
    reply = reply or Reply()
    is_ok = end.outcome == "ok"
    outcome = "incomplete" if is_ok and not reply.is_complete else end.outcome
    usage = reply.usage or _estimated(turn, reply, is_ok)
    breaks = _breaks(turn, window)
    batches: list[Batch] = []
    if live.is_lost:
        window, again = lost_rows(turn, window)
        batches.append(again)
    if is_ok and reply.elements:
        batches.append(accept(turn, window))
        if outcome == "ok" or not usage.is_estimated:
            batches.append(_remember_usage(turn, usage, models))
        else:
            # A cut reply without a figure calls for nothing; but what was made smaller stays known to be smaller.
            live.state.input = min(live.state.input, usage.input)
    steps = emitted(reply.elements, reply.response_id, turn.conversation.hints.kept_in)
    last: LastOutcome = "ok" if is_ok else "cancelled" if end.outcome == "cancelled" else "failed"
    view = finish(live.view, steps, last, live_branches.tick())
    live.state.outcome = end.outcome
    keys = new_keys(view.path, view.sent, view.scope) if steps else ()
    live_branches.finish(live, view, keys)
    items = item_ids(placement.conversation, reply.elements, before=ahead_of(turn))
    rows, bodies = item_rows(
        reply.elements,
        items,
        steps,
        groups(reply.elements),
        conversation=placement.conversation,
        branch=placement.branch,
        exchange=turn.exchange,
    )
    if is_ok and rounds:
        batches.append(_hide(turn, rounds, items))
    _name(live, reply)
    path, live.path = path_row(placement.branch, live.path, (*live.path.items, *items))
    row = _outcome_row(
        turn.exchange,
        End(outcome, end.status, end.error, end.attempts, end.first_byte_ms, end.duration_ms),
        usage,
        reply.finish,
        cost(usage, turn.limits.facts),
        _direct(turn, usage),
        breaks,
        tuple(items),
    )
    batches.append(
        Batch(
            bodies=bodies,
            replies=rows,
            paths=(path,) if path is not None else (),
            outcomes=(row,),
            branches=(live.row(tenant),),
            keys=tuple(KeyRow(tenant, kind, key, placement.branch) for kind, key in keys),
        )
    )
    return merge(*batches)


def _name(live: Live, reply: Reply) -> None:
    """Of a reply in several rounds the client knows the first response, the provider goes on from the last."""
    if reply.kept_as:
        names = {**live.state.kept_as, reply.response_id: reply.kept_as}
        live.state.kept_as = dict([*names.items()][-KEPT_NAMES:])


def settle_round(turn: Turn, end: End, reply: Reply, window: WindowRow, tenant: str, models: ModelBook) -> Batch:
    """A round that another one follows: a call of its own for the bill, and no step of the conversation."""
    live = turn.live
    usage = reply.usage or _estimated(turn, reply, True)
    breaks = _breaks(turn, window)
    batches: list[Batch] = []
    if live.is_lost:
        window, again = lost_rows(turn, window)
        batches.append(again)
    batches += (accept(turn, window), _remember_usage(turn, usage, models))
    price = cost(usage, turn.limits.facts)
    # Without us there would have been one call: the last one stands for it.
    row = _outcome_row(turn.exchange, end, usage, "tool_calls", price, None if price is None else 0.0, breaks, ())
    return merge(*batches, Batch(outcomes=(row,), branches=(live.row(tenant),)))


def _breaks(turn: Turn, window: WindowRow) -> int:
    """1 where we made the provider read anew what it had read from its cache before."""
    return int(bool(window.reason) and is_break(window.first_change, turn.live.state.carried))


def _hide(turn: Turn, rounds: Sequence[Rounded], items: Sequence[str]) -> Batch:
    """Remember what the client did not see of its reply, and where that stands from now on."""
    live = turn.live
    last = turn.own.measured.ids[-1]
    found = anchored(turn.conversation.wire, [made.spoken for made in rounds], items, last)
    wanted = {item for entry in found for item in entry.items}
    for made in rounds:
        live.hidden.update({item: element.raw for item, element in made.hidden if item in wanted})
    folded = frozenset(live.plan.fold.covers) if live.plan.fold is not None else frozenset[str]()
    live.state.hidden = (*(entry for entry in live.state.hidden if entry.anchor not in folded), *found)
    return rounds[-1].rows


def _direct(turn: Turn, usage: Usage) -> float | None:
    """What the call would have cost without us."""
    facts, limits = turn.limits.facts, turn.limits
    if turn.is_as_sent:
        return cost(usage, facts)
    whole = limits.billed(turn.own.measured.tokens + turn.tools_tokens)
    return direct_cost(whole, limits.billed(_known_tokens(turn)), usage.output, facts)


def _known_tokens(turn: Turn) -> int:
    """Tokens of the request that were in the branch's last one: what a direct run would find in the cache."""
    known = {entry.item for entry in (turn.before or turn.base).entries}
    if turn.live.plan.fold is not None:
        known.update(turn.live.plan.fold.covers)
    measured = turn.own.measured
    return measured.tokens - measured.new_tokens(known)


def _estimated(turn: Turn, reply: Reply, is_ok: bool) -> Usage:
    if reply.finish in RUNNING:  # it has only begun: the bill comes with the result
        return Usage(0, 0, is_estimated=True)
    output = len(reply.text) // 4
    billed = turn.limits.billed(turn.estimate) if is_ok or output else 0
    return Usage(input=billed, output=output, is_estimated=True)


def _remember_usage(turn: Turn, usage: Usage, models: ModelBook) -> Batch:
    state = turn.live.state
    state.calls += 1
    state.input, state.output, state.is_estimated = usage.input, usage.output, usage.is_estimated
    state.estimate = turn.estimate
    state.billed_plan = turn.live.plan_id
    state.at = time.time()
    state.cached_by = turn.cached_by
    if usage.is_estimated or turn.conversation.is_partial:  # a bill for more than was counted teaches nothing
        return Batch()
    return models.learn_usage(turn.conversation.model, billed=usage.input, counted=turn.estimate)


def _outcome_row(
    exchange: str,
    end: End,
    usage: Usage,
    finish_reason: str,
    dollars: float | None,
    direct: float | None,
    breaks: int,
    items: tuple[str, ...],
) -> OutcomeRow:
    return OutcomeRow(
        exchange=exchange,
        status=end.status,
        outcome=end.outcome,
        attempts=end.attempts,
        finish=finish_reason,
        input=usage.input,
        cached=usage.cached,
        written=usage.written,
        output=usage.output,
        reasoning=usage.reasoning,
        is_estimated=usage.is_estimated,
        cost=dollars,
        cost_direct=direct,
        error=end.error,
        first_byte_ms=round(end.first_byte_ms, 3),
        duration_ms=round(end.duration_ms, 3),
        ended_at=now(),
        breaks=breaks,
        reply_items=items,
    )
