"""One branch held against a request: how much of it the request carries. Weighs; does not decide."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.core.alignment import common_prefix, is_edited, without_known
from proxy.core.branches import BranchView
from proxy.core.identity import Path, Probe, Step

_WITHOUT_CALLS = 1.0  # a relayed text's weight when the client sends no calls and the lists start alike
_ELSEWHERE = 0.5  # when they start differently: it takes two, or one that answers the same question
_BESIDE_CALLS = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """`shared` is the common chain in bytes. One whole receipt is enough to know the branch."""

    view: BranchView
    body: Path  # the request without blocks that this branch knows to come and go
    dropped: tuple[int, ...]  # where those stood
    shared: int
    receipts: float
    has_last: bool  # the branch's latest reply is in the request
    head: int  # 2 the same, 1 the same stem, 0 another
    has_same_tools: bool
    is_same_scope: bool

    @property
    def sent_end(self) -> int:
        return self.view.path.end(self.view.sent)

    @property
    def is_repeat(self) -> bool:
        """The request is the branch's last one again."""
        return self.shared == len(self.body.flat) == self.sent_end

    @property
    def is_rerun(self) -> bool:
        """The request ends exactly where a relayed reply began."""
        if self.shared != len(self.body.flat):
            return False
        path = self.view.path
        position = bisect_right(path.ends, self.shared)
        return position < len(path) and path.steps[position].is_emitted

    @property
    def rank(self) -> tuple[float, ...]:
        """The better fit ranks higher."""
        view = self.view
        return (
            self.has_last,
            view.kind != "side" or self.head > 0,
            self.receipts,
            self.head,
            self.has_same_tools,
            self.is_same_scope,
            self.shared,
            -len(view.path.flat),
            self.is_repeat and view.outcome in ("failed", "cancelled"),
            view.tick,
        )


def hold(probe: Probe, view: BranchView) -> Fit:
    """Compare a request with one branch."""
    body, dropped = without_known(probe.path, dict(view.kinds), view.path.emitted_texts)
    shared = common_prefix(view.path, body)
    head = 2 if probe.head_hash == view.head_hash else int(probe.head_hash[:8] == view.head_hash[:8])
    # Texts and equal beginnings repeat across sessions; call ids alone may lead from one into another.
    is_same_scope = bool(probe.hints.forced) or view.scope == probe.hints.scope
    receipts = float(len(view.path.emitted_calls & body.strong.keys()))
    edited = -1
    if is_same_scope:
        edited = _edited_reply(view.path, body, shared)
        weight = _BESIDE_CALLS if body.has_calls else _WITHOUT_CALLS if shared or head == 2 else _BESIDE_CALLS
        texts = view.path.emitted_texts & body.texts
        if not shared:
            weight = min(weight, _ELSEWHERE)
            receipts += _ELSEWHERE * (
                bool(texts) and not body.has_calls and not _answered(view.path).isdisjoint(_answered(body))
            )
        receipts += weight * (len(texts) + (edited >= 0))
        receipts += sum(view.path.ends[i] <= shared for i in view.path.weak)
        receipts += shared == len(view.path.flat) and any(step.is_emitted and step.chain for step in view.reply)
    return Fit(
        view=view,
        body=body,
        dropped=dropped,
        shared=shared,
        receipts=receipts,
        has_last=receipts >= 1 and _has_latest(view, body, shared, edited, is_same_scope),
        head=head,
        has_same_tools=probe.tools_hash == view.tools_hash,
        is_same_scope=is_same_scope,
    )


def _answered(path: Path) -> set[tuple[bytes, bytes]]:
    """Each assistant text with the user's words before it."""
    found, question = set(), b""
    for step in path.steps:
        if step.role == "user" and step.chain:
            question = step.chain
        elif step.receipt and question:
            found.add((question, step.receipt))
    return found


def _edited_reply(old: Path, new: Path, shared: int) -> int:
    """The relayed text that the request carries cut or extended, just where the two lists part; else -1."""
    i, j = bisect_right(old.ends, shared), bisect_right(new.ends, shared)
    if i >= len(old) or j >= len(new):
        return -1
    before, after = old.steps[i], new.steps[j]
    is_reply = before.is_emitted and before.role == after.role == "assistant" and before.chain != after.chain
    return i if is_reply and is_edited(before, after) else -1


def _has_latest(view: BranchView, body: Path, shared: int, edited: int, texts_count: bool) -> bool:
    steps = _latest_reply(view)
    if any(view.path.ends[i] <= shared and step.chain for i, step in steps):
        return True
    anchors = {anchor for _, step in steps for anchor in step.made} & view.path.emitted_calls
    if anchors:
        return not anchors.isdisjoint(body.strong)
    if not texts_count:
        return False
    receipts = {step.receipt for _, step in steps if step.receipt}
    behind = body.steps[bisect_right(body.ends, shared) :]
    return any(i == edited for i, _ in steps) or any(step.receipt in receipts for step in behind if step.receipt)


def _latest_reply(view: BranchView) -> Sequence[tuple[int, Step]]:
    """The newest reply that the client must know: a cut one it may have dropped."""
    steps, sent = view.path.steps, view.sent
    reply = [(i, step) for i, step in enumerate(steps[sent:], sent) if step.chain or step.made]
    if reply and view.outcome == "ok":
        return reply
    found: list[tuple[int, Step]] = []
    for i in range(sent - 1, -1, -1):
        if steps[i].is_emitted:
            found.append((i, steps[i]))
        elif found and steps[i].chain:
            break
    return [*reply, *found]
