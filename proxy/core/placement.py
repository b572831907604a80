"""Where a request belongs: which conversation and branch, and what became of the branch's old path.

A wrong guess never mixes content: it only picks the stored plan to reuse. No I/O, no state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from proxy.core.alignment import Alignment, align, tail_start, without_known
from proxy.core.branches import BranchView, Placement, Verdict
from proxy.core.evidence import Fit, hold
from proxy.core.identity import Path, Probe, forced_conversation, hash_response, short_id
from proxy.core.quotations import asks_for_summary, quoted_branch, summary_source
from proxy.core.records import BranchKind

_KINDS_KEPT = 32
_BROKEN = ("failed", "cancelled")


def place(probe: Probe, branches: Iterable[BranchView], *, discriminator: str = "") -> Placement:
    """Decide where `probe` belongs among known branches; those of other tenants are not looked at.

    `discriminator` tells twins apart: something unique to the exchange.
    """
    known = [view for view in branches if view.tenant == probe.tenant]
    if probe.hints.forced:
        forced = forced_conversation(probe.tenant, probe.hints.forced)
        known = [view for view in known if view.conversation == forced]
    placer = _Placer(probe, known, discriminator)
    if probe.hints.behind:
        return placer.after_response()
    return placer.by_receipts() or placer.by_content() or placer.by_scope() or placer.new()


class _Placer:
    """The rules in their order of precedence, over one request and the branches known."""

    def __init__(self, probe: Probe, known: Sequence[BranchView], discriminator: str) -> None:
        self.probe = probe
        self.known = known
        self.discriminator = discriminator
        self.hints = probe.hints
        self.is_subagent = probe.hints.label == "subagent" or bool(probe.hints.parent_scope)
        self.side_label = "" if self.is_subagent else probe.hints.label
        self.fits: list[Fit] = []

    # -- the rules ---------------------------------------------------------------------------------

    def by_receipts(self) -> Placement | None:
        """The request carries replies of a branch."""
        self.fits = [hold(self.probe, view) for view in self.known]
        best = max((fit for fit in self.fits if fit.receipts >= 1), key=lambda fit: fit.rank, default=None)
        if best is None:
            return None
        view = best.view
        # What a provider sealed when it was asked for a compaction tells of it even under the same instructions.
        is_other = not best.head or any(step.kind == "opaque" and step.made for step in view.reply)
        if view.kind == "side" and best.has_last and is_other and view.parent and not self.side_label:
            return self._epoch(view)
        if self.is_subagent and self.hints.scope != view.scope:
            return self._branch_off(best, "subagent", "subagent")
        if self._is_side_over(best):
            return self._branch_off(best, "side", "side")
        if best.is_repeat:
            return self._repeat(best)
        is_overtaken = view.outcome == "streaming" and best.shared < best.sent_end
        if not best.has_last or is_overtaken:
            return self._branch_off(best, "regenerate" if best.is_rerun else "fork", view.kind)
        if view.scope and self.hints.scope and not best.is_same_scope:
            return self._branch_off(best, "continue", view.kind, "resumed_from")
        return self._continue(best)

    def by_content(self) -> Placement | None:
        """No receipts, but the request repeats or extends a known one, or carries a summary or quotations."""
        repeat = self._repeated()
        source = None if self.side_label else summary_source(self.probe, self.known)
        if source is not None and (repeat is None or source.tick > repeat.view.tick):
            return self._epoch(source)
        if repeat is not None:
            view = repeat.view
            if repeat.is_repeat:
                return self._repeat(repeat)
            if view.outcome in _BROKEN or (view.outcome == "ok" and not view.reply):
                return self._continue(repeat)
            return self._branch_off(repeat, "fork", view.kind)
        quoted = quoted_branch(self.probe, self.known)
        return self._beside(quoted, "side", "side") if quoted is not None else None

    def by_scope(self) -> Placement | None:
        """Only the client's own labels and its scope say where the request belongs."""
        hints, probe = self.hints, self.probe
        if self.is_subagent:
            parent = self._newest(hints.parent_scope or hints.scope)
            return self._beside(parent, "subagent", "subagent") if parent is not None else None
        if not hints.scope:
            return None
        main = self._newest(hints.scope)
        if main is not None:
            is_odd = not probe.has_tools and bool(main.tools_hash) and main.head_hash != probe.head_hash
            return self._beside(main, "side", "side") if self.side_label or is_odd else None
        is_chore = asks_for_summary(probe.head_text) or (len(probe.path) > 1 and asks_for_summary(probe.first_user))
        return self._lone_side() if self.side_label or (is_chore and not probe.has_tools) else None

    def new(self) -> Placement:
        """Nothing known has to do with it."""
        steps = self.probe.path.steps
        first = next((step.chain for step in steps if step.role == "user" and step.chain), b"")
        kind: BranchKind = "subagent" if self.is_subagent else "main"
        return self._opened(self._conversation(first), kind, "new")

    def after_response(self) -> Placement:
        """The request stands behind a reply, or at the end of a provider's conversation, that the client names."""
        key, own = hash_response(self.hints.behind), self.probe.path
        views = [view for view in self.known if key in view.path.responses]
        if not views:
            conversation = self._conversation(self.hints.behind.encode("utf-8", "surrogatepass"))
            return self._opened(conversation, "main", "new", is_unresolved=True)
        view = min(views, key=lambda v: (len(v.path) - v.path.responses[key], -v.tick))
        inherited = view.path.responses[key] + 1
        is_leaf = inherited == len(view.path)
        behind = view.path if is_leaf else Path(view.path.steps[:inherited])
        path, base = behind.plus(own.steps), len(behind.flat)
        # Only a last request that stood behind the same reply can be this one again.
        stood_here = inherited <= view.sent and not any(s.is_emitted for s in view.path.steps[inherited : view.sent])
        is_repeat = stood_here and not is_leaf and view.path.flat[base : view.path.end(view.sent)] == own.flat
        is_again = is_repeat and (view.outcome in _BROKEN or self.hints.retry_count > 0)
        verdict: Verdict = "continue"
        if self.side_label:
            verdict = "side"
        elif is_again:
            verdict = "retry"
        elif not is_leaf and not (stood_here and view.outcome in _BROKEN):
            verdict = "twin" if is_repeat else "fork"
        return self._with_path(view, verdict, path, inherited, inherited)

    # -- what they are made of ---------------------------------------------------------------------

    def _repeated(self) -> Fit | None:
        """A branch whose last request this one repeats or extends."""
        fits = [
            fit
            for fit in self.fits
            if fit.is_same_scope and fit.head and fit.has_same_tools and fit.sent_end and fit.shared == fit.sent_end
            and (not self.side_label or fit.view.kind == "side")
        ]  # fmt: skip
        return max(
            fits,
            key=lambda fit: (fit.is_repeat, fit.view.outcome in _BROKEN, fit.shared, fit.view.tick),
            default=None,
        )

    def _is_side_over(self, best: Fit) -> bool:
        if best.view.kind == "side":
            return not best.head
        if self.side_label or (not best.head and not best.has_same_tools):
            return True
        has_lost_tools = bool(best.view.tools_hash) and not self.probe.has_tools
        return has_lost_tools and asks_for_summary(self.probe.last_user)

    def _repeat(self, fit: Fit) -> Placement:
        view = fit.view
        if self.hints.retry_count or view.outcome in _BROKEN or (view.outcome == "ok" and not view.reply):
            return self._continue(fit, "retry")
        was_answered = view.outcome == "ok" and any(step.is_emitted for step in view.path.steps[: view.sent])
        return self._branch_off(fit, "regenerate" if was_answered else "twin", view.kind)

    def _continue(self, fit: Fit, verdict: Verdict = "continue") -> Placement:
        """The same branch goes on. A side call that goes on was an agent of its own all along."""
        view = fit.view
        old = Path(view.path.steps[: view.sent]) if verdict == "retry" and view.reply else view.path
        alignment = align(old, fit.body, fit.shared, view.sent)
        source = summary_source(self.probe, self.known) if alignment.pruned else None
        kind: BranchKind = "main" if view.kind == "side" and not self.side_label and verdict != "retry" else view.kind
        return self._aligned(
            fit, alignment, verdict, view.id, kind, view.parent, view.parent_kind, source.id if source else ""
        )

    def _branch_off(self, fit: Fit, verdict: Verdict, kind: BranchKind, parent_kind: str = "") -> Placement:
        """A new branch that shares the beginning of another's path."""
        view = fit.view
        alignment = align(view.path, fit.body, fit.shared, view.sent)
        salt = self.discriminator if verdict in ("twin", "regenerate") else self.hints.scope
        branch = self._branch_id(view.conversation, view.id, verdict, salt)
        name = parent_kind or ("fork" if verdict == "regenerate" else verdict)
        return self._aligned(fit, alignment, verdict, branch, kind, view.id, name)

    def _aligned(
        self, fit: Fit, alignment: Alignment, verdict: Verdict, branch: str, kind: BranchKind,
        parent: str, parent_kind: str, summary_of: str = "",
    ) -> Placement:  # fmt: skip
        view, whole = fit.view, self.probe.path
        gone = set(fit.dropped)
        at = [i + self.probe.head for i in range(len(whole)) if i not in gone] if gone else None
        counts = dict(view.kinds)
        if verdict == "continue":
            for block in alignment.kinds:
                counts[block] = counts.get(block, 0) + 1
        # A kind that has just become known leaves the path at once: it will be left out of every list from now on.
        path, left_out = without_known(alignment.path, counts, view.path.emitted_texts)

        def position(i: int) -> int:
            return at[i] if at is not None else i + self.probe.head

        moving = {*map(position, (*alignment.moving, *left_out))}
        moving.update(i + self.probe.head for i in fit.dropped)
        tail = tail_start(whole.steps) + self.probe.head
        return Placement(
            verdict=verdict,
            conversation=view.conversation,
            branch=branch,
            kind=kind,
            path=path,
            parent=parent,
            parent_kind=parent_kind,
            epoch=view.epoch,
            lcp=alignment.lcp - bisect_left(left_out, alignment.lcp),
            scope=self.hints.scope or view.scope,
            is_new_branch=branch != view.id,
            ephemeral=tuple(sorted(i for i in moving if i >= tail)),
            floating=tuple(sorted(i for i in moving if i < tail)),
            revised=tuple((position(i), old.hash) for i, old in alignment.revised),
            pruned=tuple(step.hash for step in alignment.pruned),
            kinds=tuple(counts.items())[-_KINDS_KEPT:],
            summary_of=summary_of,
        )

    def _with_path(self, view: BranchView, verdict: Verdict, path: Path, lcp: int, inherited: int) -> Placement:
        is_same = verdict in ("continue", "retry")
        salt = self.discriminator if verdict == "twin" else path.flat
        branch = view.id if is_same else self._branch_id(view.conversation, view.id, verdict, salt)
        return Placement(
            verdict=verdict,
            conversation=view.conversation,
            branch=branch,
            kind="side" if verdict == "side" else view.kind,
            path=path,
            parent=view.parent if is_same else view.id,
            parent_kind=view.parent_kind if is_same else verdict,
            epoch=view.epoch,
            lcp=lcp,
            scope=self.hints.scope or view.scope,
            inherited=inherited,
            is_new_branch=not is_same,
            kinds=view.kinds,
        )

    def _epoch(self, source: BranchView) -> Placement:
        """The list starts anew from a summary that a side call over the parent wrote."""
        parent = next((fit for fit in self.fits if fit.view.id == source.parent), None)
        return Placement(
            verdict="epoch",
            conversation=source.conversation,
            branch=self._branch_id(source.conversation, source.parent, "epoch", source.id),
            kind="main",
            path=self.probe.path,
            parent=source.parent,
            parent_kind="epoch",
            epoch=source.epoch + 1,
            lcp=bisect_right(self.probe.path.ends, parent.shared) if parent is not None and parent.shared else 0,
            scope=self.hints.scope or source.scope,
            is_new_branch=True,
            kinds=parent.view.kinds if parent is not None else (),
            summary_of=source.id,
        )

    def _beside(self, view: BranchView, verdict: Verdict, kind: BranchKind) -> Placement:
        """A branch with a list of its own, that belongs to another one's conversation."""
        return Placement(
            verdict=verdict,
            conversation=view.conversation,
            branch=self._branch_id(view.conversation, view.id, verdict, self.hints.scope),
            kind=kind,
            path=self.probe.path,
            parent=view.id,
            parent_kind=verdict,
            epoch=view.epoch,
            scope=self.hints.scope or view.scope,
            is_new_branch=True,
        )

    def _lone_side(self) -> Placement:
        """A title call that comes before its conversation quotes the first user text last: the same seed."""
        steps = self.probe.path.steps
        last = next((step.chain for step in reversed(steps) if step.role == "user" and step.chain), b"")
        return self._opened(self._conversation(last), "side", "side")

    def _opened(
        self, conversation: str, kind: BranchKind, verdict: Verdict, *, is_unresolved: bool = False
    ) -> Placement:
        return Placement(
            verdict=verdict,
            conversation=conversation,
            branch=self._branch_id(conversation, "", kind, ""),
            kind=kind,
            path=self.probe.path,
            scope=self.hints.scope,
            is_new_branch=True,
            is_unresolved=is_unresolved,
        )

    def _newest(self, scope: str) -> BranchView | None:
        views = (view for view in self.known if view.scope == scope and view.kind != "side")
        return max(views, key=lambda view: view.tick, default=None) if scope else None

    def _conversation(self, seed: bytes) -> str:
        hints, tenant = self.hints, self.probe.tenant
        if hints.forced:
            return forced_conversation(tenant, hints.forced)
        # Without a scope the head keeps applications apart that open with the same words.
        stem = b"" if hints.scope else self.probe.head_hash[:8]
        return short_id("conversation", tenant, hints.scope, stem, seed)

    def _branch_id(self, conversation: str, parent: str, name: str, salt: bytes | str) -> str:
        parts = ("branch", conversation, parent, name, salt, self.probe.head_hash, self.probe.path.flat)
        branch = short_id(*parts)
        if any(view.id == branch for view in self.known):
            # The same start once more, and yet not the same branch: only the exchange tells them apart.
            branch = short_id(*parts, self.discriminator or str(len(self.known)))
        return branch
