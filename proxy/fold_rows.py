"""What a window that was taken means for its branch: its plan stands, and its fold is carried out in the store."""

from __future__ import annotations

from hashlib import blake2b

from policies.model import Form
from proxy.core.identity import steps_of
from proxy.core.listing import absent
from proxy.core.records import Batch, BodyRow, FoldRow, ItemRow, SummaryRow, WindowRow
from proxy.core.window import Fold, encode_plan, plan_id
from proxy.folding import Folded, Part
from proxy.recording import Served, depth_after, fresh_rows, item_rows, now
from proxy.turn import Turn


def accept(turn: Turn, row: WindowRow) -> Batch:
    """The provider took this window: it becomes the branch's, and its fold, if not recorded yet, is carried out.

    Not when another request has moved the branch on meanwhile: a late result never overwrites a newer plan.
    """
    live, plan = turn.live, turn.decision.plan
    if turn.is_managed and turn.began_under != live.plan_id:
        return Batch()
    is_folded = plan.fold is not None and any(slot.index is None for slot in turn.decision.slots)
    batch = Batch()
    if plan.fold is not None and is_folded and (live.is_fold_lost or live.state.fold != plan.fold.item):
        batch = fold_rows(turn, plan.fold)
        live.state.fold = plan.fold.item
    live.is_fold_lost = live.is_fold_lost and not is_folded
    if turn.is_managed:
        if plan != live.plan:
            live.plan = plan
            live.plan_id = "" if plan.is_empty else plan_id(turn.placement.branch, encode_plan(plan))
        live.state.memory = dict(turn.decision.memory)
    if turn.edits.tool:
        live.state.expand = turn.tool
    live.state.carried = row.first_change if row.first_change >= 0 else len(turn.base.entries)
    live.served = Served(row.id, depth_after(turn.base, row), turn.rendered.entries)
    kept = {entry.item for entry in turn.rendered.entries}.union(plan.fold.covers if plan.fold is not None else ())
    ids = turn.measured.ids
    live.state.absent = tuple([ids[index] for index in absent(ids, kept)])
    return batch


def fold_rows(turn: Turn, fold: Fold) -> Batch:
    """Compaction in the store: the summary, what it stands for, and the window's items as fresh rows."""
    conversation, live = turn.placement.conversation, turn.live
    folded = turn.decision.folded
    summary = _summary_item(turn, fold)
    kept = [slot.index for slot in turn.decision.slots if slot.index is not None]
    before = next(i for i, slot in enumerate(turn.decision.slots) if slot.index is None)
    elements = turn.conversation.elements
    steps = [*steps_of(elements[: turn.conversation.head]), *turn.probe.path.steps]
    if turn.asked is not None:
        steps = [*turn.measured.listing.steps]
    numbers = turn.measured.listing.groups
    items, _ = item_rows(
        [elements[i] for i in kept],
        [turn.measured.ids[i] for i in kept],
        [steps[i] for i in kept],
        [numbers[i] for i in kept],
        conversation=conversation,
        branch=turn.placement.branch,
        exchange=turn.exchange,
    )
    parts, bodies = _part_rows(conversation, folded, frozenset() if live.is_fold_lost else live.parts)
    if folded is not None:
        live.parts = frozenset(part.item for part in folded.parts if part.is_settled)
    covers = fold.covers if folded is None else _by_part(folded.parts)
    row = FoldRow(
        conversation=conversation,
        branch=turn.placement.branch,
        trigger=fold.reason if folded is not None or live.is_fold_lost else f"with the fork: {fold.reason}",
        figure=live.state.input,
        tokens_before=turn.measured.tokens,
        tokens_after=turn.decision.tokens,
        summary=fold.item,
        fresh=fresh_rows(items, summary, before),
        created_at=now(),
        follows=None if live.is_fold_lost else live.state.fold,
        covered=len(fold.covers),
        parts=len(folded.parts) if folded is not None else 0,
        told=folded.told if folded is not None else 0,
    )
    own = SummaryRow(
        key=f"{turn.placement.branch}:{fold.item}",
        conversation=conversation,
        item=fold.item,
        body=summary.body,
        summarizer="digest",
        covers=covers,
        tokens=next((entry.tokens for entry in turn.rendered.entries if entry.form == int(Form.FOLDED)), 0),
        created_at=now(),
    )
    return Batch(bodies=bodies, folds=(row,), summaries=(*parts, own))


def _part_rows(
    conversation: str, folded: Folded | None, known: frozenset[str]
) -> tuple[tuple[SummaryRow, ...], tuple[BodyRow, ...]]:
    """A record for every settled part that the fold before did not name: an original is named once, not at every fold.

    What a part is may change with the list: hidden pairs among its items, say.
    """
    if folded is None:
        return (), ()
    rows, bodies = [], []
    for part, record in zip(folded.parts, folded.records, strict=True):
        if part.is_settled and part.item not in known:
            text = record.encode("utf-8", "surrogatepass")
            body = BodyRow(blake2b(text, digest_size=16).digest(), text)
            bodies.append(body)
            rows.append(
                SummaryRow(
                    key=f"part:{part.item}",
                    conversation=conversation,
                    item=part.item,
                    body=body.hash,
                    summarizer="digest",
                    covers=part.ids,
                    tokens=len(text) // 4,
                    created_at=now(),
                )
            )
    return tuple(rows), tuple(bodies)


def _by_part(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """What a fold covers, in order: settled parts by their records, the rest by its own ids."""
    return tuple(id for part in parts for id in ((part.item,) if part.is_settled else part.ids))


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
