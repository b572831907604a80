"""One turn as rows: its new items and receipts, its windows' manifests. Builds batches, writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from policies.model import Form
from proxy.core.identity import item_ids
from proxy.core.links import link_type
from proxy.core.listing import absent
from proxy.core.receipts import Key, new_keys
from proxy.core.records import ArrivalRow, Batch, BodyRow, ExchangeRow, ItemRow, KeyRow, LinkRow, PlanRow, WindowRow
from proxy.core.window import encode_plan, plan_id
from proxy.recording import (
    SNAPSHOT_EVERY,
    Chain,
    Served,
    item_rows,
    merge,
    path_row,
    window_row,
)
from proxy.turn import Turn
from proxy.turn_state import NewRows

_HASH = attrgetter("hash")
MANY_ROWS = 1000
TOOL_OFFERED = "the tool that expands is offered from here on"


def request_rows(turn: Turn, exchange: ExchangeRow | None = None) -> Batch:
    """The request's new items, its path, receipts and branch. Moves the branch's path on in memory."""
    live, placement = turn.live, turn.placement
    keys, plans = turn.fresh_keys, tuple[PlanRow, ...]()
    if live.is_lost or (live.base is not None and live.base.is_lost):
        keys, plans = _forget_rows(turn)
    fresh = _fresh(turn)
    made = turn.rows if turn.rows is not None and turn.rows.fresh == fresh else _new_rows(turn, fresh)
    turn.rows = made
    key_rows = made.keys if keys is turn.fresh_keys else _key_rows(turn, keys)
    arrivals = (_arrival(turn),) if live.base is not None else ()
    live.base = None
    row, live.path = path_row(placement.branch, live.path, _path_ids(turn))
    live.state.head = turn.own.conversation.head
    live.state.sent = len(placement.path)
    live.state.kinds = placement.kinds
    saved = frozenset(keys)
    live.unsaved = tuple(key for key in live.unsaved if key not in saved)
    return Batch(
        bodies=made.bodies,
        items=made.items,
        exchanges=(exchange,) if exchange is not None else (),
        branches=(live.row(turn.probe.tenant),) if exchange is not None else (),
        paths=(row,) if row is not None else (),
        plans=plans,
        keys=key_rows,
        links=made.links,
        arrivals=arrivals,
    )


def prepare_rows(turn: Turn) -> None:
    """Make the rows of many new items ahead, in another thread; `request_rows` takes them while they are right."""
    turn.rows = _new_rows(turn, _fresh(turn))


def has_many_rows(turn: Turn) -> bool:
    """Would making them hold the event loop?"""
    measured = turn.own.measured
    return measured.is_large or len(measured.ids) - len(turn.live.path.items) > MANY_ROWS


def _new_rows(turn: Turn, fresh: list[int]) -> NewRows:
    items, bodies = _items(turn, fresh)
    # A branch that begins with what its parent has links it as it stands here.
    linked = fresh if turn.live.base is None else range(len(turn.own.measured.ids))
    return NewRows(fresh, items, bodies, _links(turn, linked), _key_rows(turn, turn.fresh_keys))


def _key_rows(turn: Turn, keys: Sequence[Key]) -> tuple[KeyRow, ...]:
    tenant, branch = turn.probe.tenant, turn.placement.branch
    return tuple([KeyRow(tenant, kind, key, branch) for kind, key in keys])


def _items(turn: Turn, fresh: Sequence[int]) -> tuple[tuple[ItemRow, ...], tuple[BodyRow, ...]]:
    measured = turn.own.measured
    listing, ids = measured.listing, measured.ids
    return item_rows(
        [listing.elements[i] for i in fresh],
        [ids[i] for i in fresh],
        [listing.step(i) for i in fresh],
        [listing.groups[i] for i in fresh],
        conversation=turn.placement.conversation,
        branch=turn.placement.branch,
        exchange=turn.exchange,
        pinned=frozenset(ids[i] for i in fresh if listing.kinds[i] == "system"),
        sources=[measured.facts[i].argument for i in fresh],
    )


def _fresh(turn: Turn) -> list[int]:
    """Indices of the items that this branch, or the one it left, has no rows of."""
    live, ids = turn.live, turn.own.measured.ids
    known = (live.base or live).path.items
    if ids[: len(known)] == known:
        return list(range(len(known), len(ids)))
    return absent(ids, frozenset(known))


def _arrival(turn: Turn) -> ArrivalRow:
    """All the items that a branch begins with."""
    measured = turn.own.measured
    pinned = [item for item, kind in zip(measured.ids, measured.listing.kinds, strict=True) if kind == "system"]
    return ArrivalRow(turn.placement.branch, turn.placement.conversation, measured.ids, frozenset(pinned))


def _path_ids(turn: Turn) -> tuple[str, ...]:
    """Ids of the branch's path with this request: those of its items, unless the path leaves some out or has more."""
    head, path = turn.own.conversation.elements[: turn.own.conversation.head], turn.placement.path
    listing = turn.own.measured.listing
    if not turn.placement.inherited and [*map(_HASH, path.steps)] == [*map(_HASH, listing.path.steps)]:
        return turn.own.measured.ids
    return tuple(item_ids(turn.placement.conversation, [*head, *path.steps]))


def _forget_rows(turn: Turn) -> tuple[tuple[Key, ...], tuple[PlanRow, ...]]:
    """Rows of this branch did not reach the disk, and later ones build on them: write all of it anew.

    Lists become snapshots again, every item counts as new; the receipts and the plan are returned.
    """
    live = turn.live
    live.is_lost, live.base = False, None
    live.path = Chain()
    live.served = turn.base = _unsupported(live.served)
    keys = dict.fromkeys((*turn.fresh_keys, *new_keys(live.view.path, 0, live.view.scope)))
    plan = PlanRow(live.plan_id, turn.placement.branch, encode_plan(live.plan)) if live.plan_id else None
    return tuple(keys), (plan,) if plan is not None else ()


def _unsupported(served: Served) -> Served:
    """The same window, but no delta may stand on it."""
    return replace(served, depth=SNAPSHOT_EVERY)


def lost_rows(turn: Turn, window: WindowRow) -> tuple[WindowRow, Batch]:
    """What a request wrote and the disk did not take, once more, as far as the branch needs it."""
    rows = request_rows(turn)
    row, again = window_rows(turn, window.policy)
    return row, merge(rows, again)


def _links(turn: Turn, indices: Sequence[int]) -> tuple[LinkRow, ...]:
    """What each of these items answers, and what it draws on."""
    conversation, measured = turn.placement.conversation, turn.own.measured
    sites, facts, ids = measured.listing.sites, measured.facts, measured.ids
    links = []
    for index in [index for index in indices if index in sites or facts[index].cites]:
        if (site := sites.get(index)) is not None:
            links.append(LinkRow(conversation, ids[index], ids[site.index], "replies_to"))
        if cites := facts[index].cites:
            kind = link_type(measured.listing.elements[index])
            links += [LinkRow(conversation, ids[index], cited, kind) for cited in cites]
    return tuple(links)


def window_rows(turn: Turn, policy: str) -> tuple[WindowRow, Batch]:
    """The manifest of the attempt about to be sent, and the plan it was made under when that is new."""
    row, frame = window_row(
        turn.window,
        turn.exchange,
        turn.placement.branch,
        turn.attempt,
        _unsupported(turn.base) if turn.live.is_lost else turn.base,
        turn.rendered,
        policy=policy if turn.is_managed else "passthrough",
        reason=turn.decision.reason,
        tokens_in=turn.own.measured.tokens + turn.tools_tokens,
        tokens_out=turn.estimate,
    )
    if turn.edits.tool and not turn.live.state.expand and turn.base.id:
        # One more tool stands before everything else: the whole window is written anew.
        row = replace(row, first_change=0, reason=row.reason or TOOL_OFFERED)
    plans: tuple[PlanRow, ...] = ()
    plan = turn.decision.plan
    if turn.is_managed and not plan.is_empty and plan != turn.live.plan:
        data = encode_plan(plan)
        plans = (PlanRow(plan_id(turn.placement.branch, data), turn.placement.branch, data),)
    return row, Batch(bodies=(*frame, *turn.rendered.bodies, *_spellings(turn, row)), windows=(row,), plans=plans)


def _spellings(turn: Turn, row: WindowRow) -> tuple[BodyRow, ...]:
    """Bytes of known items that went out spelt anew: a client repeats the model's words in JSON of its own."""
    served = {entry.body for entry in turn.base.entries} if turn.base.depth < SNAPSHOT_EVERY else set()
    if turn.rows is not None:
        served.update(map(_HASH, turn.rows.bodies))
    pieces = zip(row.tail, turn.rendered.pieces[row.keep :], strict=True)
    raws = {entry.body: piece.raw for entry, piece in pieces if entry.form == Form.FULL and entry.body not in served}
    return tuple([BodyRow(body, raw) for body, raw in raws.items()])
