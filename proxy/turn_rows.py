"""One turn as rows: its new items and receipts, its windows' manifests, its fold. Builds batches, writes nothing."""

from __future__ import annotations

from dataclasses import replace

from policies.model import Form
from proxy.core.grouping import groups
from proxy.core.identity import item_ids, steps_of
from proxy.core.kinds import kind_of
from proxy.core.receipts import Key, new_keys
from proxy.core.records import Batch, BodyRow, FoldRow, ItemRow, KeyRow, LinkRow, PlanRow, SummaryRow, WindowRow
from proxy.core.window import Fold, encode_plan, plan_id
from proxy.recording import (
    SNAPSHOT_EVERY,
    Chain,
    Served,
    depth_after,
    fresh_rows,
    item_rows,
    merge,
    now,
    path_row,
    window_row,
)
from proxy.turn import Turn


def request_rows(turn: Turn, tenant: str) -> Batch:
    """The request's new items, its path and receipts. Moves the branch's path on in memory."""
    live, placement, conversation = turn.live, turn.placement, turn.conversation
    keys, plans = turn.fresh_keys, tuple[PlanRow, ...]()
    if live.is_lost:
        keys, plans = _forget_rows(turn)
    elements, ids = conversation.elements, turn.measured.ids
    steps = [*steps_of(elements[: conversation.head]), *turn.probe.path.steps]
    known = frozenset(live.path.items)
    fresh = [i for i, item in enumerate(ids) if item not in known]
    numbers = groups(elements) if fresh else []
    pinned = frozenset(
        fact.id for fact, element in zip(turn.measured.facts, elements, strict=True) if kind_of(element) == "system"
    )
    items, bodies = item_rows(
        [elements[i] for i in fresh],
        [ids[i] for i in fresh],
        [steps[i] for i in fresh],
        [numbers[i] for i in fresh],
        conversation=placement.conversation,
        branch=placement.branch,
        exchange=turn.exchange,
        pinned=pinned,
        sources=[turn.measured.facts[i].argument for i in fresh],
    )
    head = elements[: conversation.head]
    own = item_ids(placement.conversation, [*head, *placement.path.steps])
    row, live.path = path_row(placement.branch, live.path, tuple(own))
    live.state.head = conversation.head
    live.state.sent = len(placement.path)
    live.state.kinds = placement.kinds
    saved = frozenset(keys)
    live.unsaved = tuple(key for key in live.unsaved if key not in saved)
    return Batch(
        bodies=bodies,
        items=items,
        paths=(row,) if row is not None else (),
        plans=plans,
        keys=tuple(KeyRow(tenant, kind, key, placement.branch) for kind, key in keys),
        links=_replies(turn, fresh),
    )


def _forget_rows(turn: Turn) -> tuple[tuple[Key, ...], tuple[PlanRow, ...]]:
    """Rows of this branch did not reach the disk, and later ones build on them: write all of it anew.

    Lists become snapshots again, every item counts as new; the receipts and the plan are returned.
    """
    live = turn.live
    live.is_lost = False
    live.path = Chain()
    live.served = turn.base = _unsupported(live.served)
    keys = dict.fromkeys((*turn.fresh_keys, *new_keys(live.view.path, 0, live.view.scope)))
    plan = PlanRow(live.plan_id, turn.placement.branch, encode_plan(live.plan)) if live.plan_id else None
    return tuple(keys), (plan,) if plan is not None else ()


def _unsupported(served: Served) -> Served:
    """The same window, but no delta may stand on it."""
    return replace(served, depth=SNAPSHOT_EVERY)


def lost_rows(turn: Turn, tenant: str, window: WindowRow) -> tuple[WindowRow, Batch]:
    """What a request wrote and the disk did not take, once more, as far as the branch needs it."""
    rows = request_rows(turn, tenant)
    row, again = window_rows(turn, window.policy)
    return row, merge(rows, again)


def _replies(turn: Turn, fresh: list[int]) -> tuple[LinkRow, ...]:
    links = []
    callers: dict[str, str] = {}
    wanted = set(fresh)
    for index, element in enumerate(turn.conversation.elements):
        for call in element.calls:
            callers[call.id] = turn.measured.ids[index]
        if index in wanted and element.answers in callers:
            caller = callers[element.answers]
            links.append(LinkRow(turn.placement.conversation, turn.measured.ids[index], caller, "replies_to"))
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
        tokens_in=turn.measured.tokens + turn.tools_tokens,
        tokens_out=turn.estimate,
    )
    plans: tuple[PlanRow, ...] = ()
    plan = turn.decision.plan
    if turn.is_managed and not plan.is_empty and plan != turn.live.plan:
        data = encode_plan(plan)
        plans = (PlanRow(plan_id(turn.placement.branch, data), turn.placement.branch, data),)
    return row, Batch(bodies=(*frame, *turn.rendered.bodies, *_spellings(turn, row)), windows=(row,), plans=plans)


def _spellings(turn: Turn, row: WindowRow) -> tuple[BodyRow, ...]:
    """Bytes of known items that went out spelt anew: a client repeats the model's words in JSON of its own."""
    served = {entry.body for entry in turn.base.entries} if row.base else set()
    raws = {element.body_hash: element.raw for element in turn.conversation.elements}
    wanted = dict.fromkeys(entry.body for entry in row.tail if entry.body in raws and entry.body not in served)
    return tuple(BodyRow(body, raws[body]) for body in wanted)


def accept(turn: Turn, row: WindowRow) -> Batch:
    """The provider took this window: it becomes the branch's, and its fold, if new, is carried out."""
    live, plan = turn.live, turn.decision.plan
    is_folded = plan.fold is not None and any(slot.index is None for slot in turn.decision.slots)
    batch = fold_rows(turn) if turn.decision.is_new_fold or (live.is_fold_lost and is_folded) else Batch()
    live.is_fold_lost = live.is_fold_lost and not is_folded
    if turn.is_managed:
        if plan != live.plan:
            live.plan = plan
            live.plan_id = "" if plan.is_empty else plan_id(turn.placement.branch, encode_plan(plan))
        live.state.memory = dict(turn.decision.memory)
    live.served = Served(row.id, depth_after(turn.base, row), turn.rendered.entries)
    kept = {entry.item for entry in turn.rendered.entries}.union(plan.fold.covers if plan.fold is not None else ())
    live.state.absent = tuple(item for item in turn.measured.ids if item not in kept)
    return batch


def fold_rows(turn: Turn) -> Batch:
    """Compaction in the store: the summary, what it stands for, and the window's items as fresh rows."""
    fold = turn.decision.plan.fold
    assert fold is not None
    conversation = turn.placement.conversation
    summary = _summary_item(turn, fold)
    kept = [slot.index for slot in turn.decision.slots if slot.index is not None]
    before = next(i for i, slot in enumerate(turn.decision.slots) if slot.index is None)
    elements = turn.conversation.elements
    steps = [*steps_of(elements[: turn.conversation.head]), *turn.probe.path.steps]
    numbers = groups(elements)
    items, _ = item_rows(
        [elements[i] for i in kept],
        [turn.measured.ids[i] for i in kept],
        [steps[i] for i in kept],
        [numbers[i] for i in kept],
        conversation=conversation,
        branch=turn.placement.branch,
        exchange=turn.exchange,
    )
    fresh = fresh_rows(items, summary, before)
    return Batch(
        items=(),
        folds=(
            FoldRow(
                conversation=conversation,
                branch=turn.placement.branch,
                trigger=fold.reason,
                figure=turn.live.state.input,
                tokens_before=turn.measured.tokens,
                tokens_after=turn.decision.tokens,
                summary=fold.item,
                fresh=fresh,
                created_at=now(),
            ),
        ),
        summaries=(
            SummaryRow(
                key=f"{turn.placement.branch}:{fold.item}",
                conversation=conversation,
                item=fold.item,
                body=summary.body,
                summarizer="digest",
                covers=fold.covers,
                tokens=_digest_tokens(turn),
                created_at=now(),
            ),
        ),
        links=tuple(LinkRow(conversation, fold.item, item, "summarizes") for item in fold.covers),
    )


def _summary_item(turn: Turn, fold: Fold) -> ItemRow:
    body = next(entry.body for entry in turn.rendered.entries if entry.item == fold.item)
    return ItemRow(
        id=fold.item,
        conversation=turn.placement.conversation,
        branch=turn.placement.branch,
        kind="summary",
        role="user",
        body=body,
        atoms=b"",
        text="",
        exchange=turn.exchange,
        created_at=now(),
    )


def _digest_tokens(turn: Turn) -> int:
    return next((entry.tokens for entry in turn.rendered.entries if entry.form == int(Form.FOLDED)), 0)
