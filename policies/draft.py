"""A selection in the making: the forms of the previous window, carried on, and what may still be lowered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.model import NOT_OFFERED, Candidate, Choice, Form, Selection, Situation

DIGEST_BASE = 200
DIGEST_PER_CALL = 25
DIGEST_LIMIT = 2_000


def digest_allowance(calls: int) -> int:
    """Tokens that the digest of `calls` folded calls may take."""
    return min(DIGEST_LIMIT, DIGEST_BASE + DIGEST_PER_CALL * calls)


class Draft:
    """Forms by candidate, starting from what was held. `lower` is the only way to change one: down.

    `edge` is the index where the last exchange begins: the newest assistant turn and everything
    behind it, among it every user message that has no answer yet. Nothing from there on is reduced.
    """

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.forms = _held_forms(situation)
        self._held = tuple(self.forms)
        self._reasons: dict[int, str] = {}
        self.edge = last_exchange(situation.candidates)

    @property
    def is_changed(self) -> bool:
        return tuple(self.forms) != self._held

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.situation.candidates

    def cost(self, index: int) -> int:
        """Tokens of one item in its present form."""
        return max(0, self.candidates[index].costs[self.forms[index]])

    @property
    def folded_calls(self) -> int:
        """How many tool results the digest has to name."""
        return sum(
            form is Form.FOLDED and candidate.kind == "tool_result"
            for candidate, form in zip(self.candidates, self.forms, strict=True)
        )

    @property
    def digest_tokens(self) -> int:
        """Tokens of the digest: the standing one while the fold is as it was, else what a new one may take."""
        folded = [index for index, form in enumerate(self.forms) if form is Form.FOLDED]
        if not folded:
            return 0
        is_standing = self.situation.digest_tokens and all(self._held[index] is Form.FOLDED for index in folded)
        return self.situation.digest_tokens if is_standing else digest_allowance(self.folded_calls)

    @property
    def tokens(self) -> int:
        """Tokens of the whole window as it stands now."""
        return sum(self.cost(index) for index in range(len(self.forms))) + self.digest_tokens

    def changed(self) -> list[int]:
        """Indices of the items whose form differs from the held one."""
        pairs = zip(self._held, self.forms, strict=True)
        return [index for index, (before, after) in enumerate(pairs) if before is not after]

    def may_lower(self, index: int, form: Form) -> bool:
        """May this item take `form` by the contract, and is it lower than now and shorter?"""
        candidate = self.candidates[index]
        if candidate.is_pinned or not candidate.is_seen or index >= self.edge:
            return False
        cost = candidate.costs[form]
        return form < self.forms[index] and cost != NOT_OFFERED and cost < self.cost(index)

    def lower(self, index: int, form: Form, reason: str) -> None:
        self.forms[index] = form
        self._reasons[index] = reason

    def reset(self) -> None:
        """Back to the held forms: what was tried is not worth it."""
        self.forms = list(self._held)
        self._reasons = {}

    def groups(self) -> list[range]:
        """Index ranges of the groups, in order."""
        return group_ranges(self.candidates)

    def can_fold(self, group: range) -> bool:
        """Is the whole group behind us, seen, unpinned and not folded yet?"""
        if group.stop > self.edge:
            return False
        for index in group:
            candidate = self.candidates[index]
            if candidate.is_pinned or not candidate.is_seen or candidate.costs[Form.FOLDED] == NOT_OFFERED:
                return False
        return any(self.forms[index] > Form.FOLDED for index in group)

    def fold(self, group: range, reason: str) -> None:
        for index in group:
            if self.forms[index] > Form.FOLDED:
                self.lower(index, Form.FOLDED, reason)

    def finish(self, reason: str, memory: Mapping[str, float] | None = None) -> Selection:
        """The selection. Items that only kept their form say so."""
        choices = tuple(
            Choice(candidate.id, form, self._reasons.get(index) or _standing_reason(candidate, form))
            for index, (candidate, form) in enumerate(zip(self.candidates, self.forms, strict=True))
        )
        return Selection(choices, reason if self.is_changed else "", {} if memory is None else memory)


def last_exchange(candidates: Sequence[Candidate]) -> int:
    """Index of the first item of the newest assistant turn; 0 when the model has not spoken."""
    last = next((c.index for c in reversed(candidates) if c.kind == "assistant"), None)
    if last is None:
        return 0
    while last > 0 and candidates[last - 1].group == candidates[last].group:
        last -= 1
    return last


def group_ranges(candidates: Sequence[Candidate]) -> list[range]:
    """Index ranges of the groups, in order."""
    ranges: list[range] = []
    start = 0
    for index in range(1, len(candidates) + 1):
        if index == len(candidates) or candidates[index].group != candidates[start].group:
            ranges.append(range(start, index))
            start = index
    return ranges


def _standing_reason(candidate: Candidate, form: Form) -> str:
    if form is not Form.FULL:
        return "held"
    if candidate.is_pinned:
        return "pinned"
    return "" if candidate.is_seen else "new"


def _held_forms(situation: Situation) -> list[Form]:
    """The previous forms, as far as the contract still allows them."""
    forms: list[Form] = []
    for candidate in situation.candidates:
        form = situation.held.get(candidate.id, Form.FULL)
        is_kept = not candidate.is_pinned and candidate.is_seen and candidate.costs[form] != NOT_OFFERED
        forms.append(form if is_kept else Form.FULL)
    for group in group_ranges(situation.candidates):
        # A group that gained a member after it was folded (a late result) must come back whole.
        removed = [index for index in group if forms[index] <= Form.FOLDED]
        if removed and len(removed) < len(group):
            for index in removed:
                forms[index] = Form.FULL
        elif len({forms[index] for index in removed}) > 1:
            for index in removed:
                forms[index] = Form.FOLDED if situation.candidates[index].costs[Form.FOLDED] >= 0 else Form.ABSENT
    return forms
