"""Requests that carry another branch's words without its items: summaries put to use, and side calls that quote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from proxy.core.branches import BranchView
from proxy.core.identity import Probe, Step, quoted_ids

SUMMARY_IN_SCOPE = 24  # characters of a side call's output that, found again, show a compaction
SUMMARY_WITHOUT_SCOPE = 48
QUOTED = 16  # shorter known texts are no quotation
_SHORT_LIST = 8  # a call that quotes sends few elements
_KNOWN_TEXTS = 64  # newest texts of a branch looked for

_SIDE_WORDS = re.compile(
    r"summar|\btitles?\b|compact|condens|checkpoint|hand-?off|commit message|follow-?ups?\b|\btags?\b|state_snapshot",
    re.IGNORECASE,
)


def asks_for_summary(text: str) -> bool:
    """Whether an instruction reads like that of a summary, a title or another chore over a conversation."""
    return bool(_SIDE_WORDS.search(text[:2000]) or _SIDE_WORDS.search(text[-1000:]))


def summary_source(probe: Probe, known: Iterable[BranchView]) -> BranchView | None:
    """The newest side branch whose output the request carries."""
    views = list(known)
    by_id = {view.id: view for view in views}
    enough = SUMMARY_IN_SCOPE if probe.hints.scope else SUMMARY_WITHOUT_SCOPE
    found = None
    for view in views:
        if view.kind != "side" or not view.parent or view.scope != probe.hints.scope:
            continue
        output = next((step for step in reversed(view.reply) if step.text and step.kind == "message"), None)
        if output is None or output.size < enough or not any(output.text in excerpt for excerpt in probe.excerpts):
            continue
        parent = by_id.get(view.parent)
        if parent is not None and not _resembles(probe, parent):
            continue
        if found is None or view.tick > found.tick:
            found = view
    return found


def _resembles(probe: Probe, parent: BranchView) -> bool:
    """What goes on after a compaction is the same agent; another one only quotes the summary."""
    if bool(parent.tools_hash) != probe.has_tools:
        return False
    return bool(probe.hints.scope) or parent.head_hash[:8] == probe.head_hash[:8]


def quoted_branch(probe: Probe, known: Iterable[BranchView]) -> BranchView | None:
    """The main branch that a short list without tools quotes in one of its texts."""
    if probe.has_tools or len(probe.path) > _SHORT_LIST:
        return None
    is_chore = asks_for_summary(probe.head_text) or any(map(asks_for_summary, probe.excerpts))
    best, best_rank = None, (0, 0, 0)
    for view in known:
        is_other = view.head_hash[:8] != probe.head_hash[:8]
        if view.kind == "side" or view.scope != probe.hints.scope or not is_other:
            continue
        for excerpt in probe.excerpts:
            relayed, all_quoted = _count(excerpt, view)
            is_evident = relayed and all_quoted > 1
            if not is_evident and not (is_chore and view.tools_hash and _quotes_opening(excerpt, view)):
                continue
            rank = (relayed, all_quoted, view.tick)
            if best is None or rank > best_rank:
                best, best_rank = view, rank
    return best


def _count(excerpt: str, view: BranchView) -> tuple[int, int]:
    steps = view.path.steps
    known = _texts((*steps[:4], *steps[4:][-_KNOWN_TEXTS:]))
    found = {text: is_relayed for text, is_relayed in known.items() if text in excerpt and text != excerpt}
    ids = view.path.emitted_calls.intersection(quoted_ids(excerpt))
    return sum(found.values()) + 2 * len(ids), len(found) + 2 * len(ids)


def _texts(steps: Sequence[Step]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for step in steps:
        if step.size >= QUOTED and step.text:
            found[step.text] = found.get(step.text, False) or step.is_emitted
    return found


def _quotes_opening(excerpt: str, view: BranchView) -> bool:
    opening = next((step for step in view.path.steps if step.role == "user"), None)
    return opening is not None and opening.size >= QUOTED and opening.text in excerpt
