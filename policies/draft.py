"""A selection in the making: the forms of the previous window, carried on, and what may still be lowered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

from policies.model import NOT_OFFERED, Candidate, Choice, Form, Selection, Situation
from policies.survey import group_ranges as group_ranges
from policies.survey import last_exchange as last_exchange
from policies.survey import shows_lines, survey_of

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
        survey = self._survey = survey_of(situation)
        self.forms = list(survey.forms)
        self._held = survey.forms
        self._costs = list(survey.costs)
        self._sum = survey.tokens
        self._digest: int | None = None  # its tokens, until a form changes
        self._reasons: dict[int, str] = {}
        self.edge = survey.edge
        self._deltas: dict[int, set[int]] = {}  # by index of a base: the deltas that refer to it
        if Form.EXCERPT in self.forms:
            for index in [index for index, form in enumerate(self.forms) if form is Form.EXCERPT]:
                self._refer(index)

    @cached_property
    def keep(self) -> dict[int, tuple[int, ...]]:
        """The segments that stay of folded items."""
        at = self._survey.at
        return {at[item]: keep for item, keep in self.situation.kept.items() if item in at}

    @property
    def is_changed(self) -> bool:
        return tuple(self.forms) != self._held

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.situation.candidates

    def cost(self, index: int) -> int:
        """Tokens of one item in its present form."""
        return self._costs[index]

    @property
    def folded_calls(self) -> int:
        """How many tool results the digest has to name."""
        if Form.FOLDED not in self.forms:
            return 0
        folded = [index for index, form in enumerate(self.forms) if form is Form.FOLDED]
        return [self.candidates[index].kind for index in folded].count("tool_result")

    @property
    def digest_tokens(self) -> int:
        """Tokens of the digest: the standing one while the fold is as it was, else what a new one may take."""
        if self._digest is None:
            self._digest = self._count_digest()
        return self._digest

    def _count_digest(self) -> int:
        forms, folded = self.forms, Form.FOLDED
        if folded not in forms:
            return 0
        if self.situation.digest_tokens:
            held = self._held
            if not self._reasons or all(held[index] is folded for index, form in enumerate(forms) if form is folded):
                return self.situation.digest_tokens
        return digest_allowance(self.folded_calls)

    @property
    def tokens(self) -> int:
        """Tokens of the whole window as it stands now."""
        return self._sum + self.digest_tokens

    @property
    def is_refolded(self) -> bool:
        """Was anything folded that was not before?"""
        return any(self.forms[index] is Form.FOLDED for index in self.changed())

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
        if form is Form.EXCERPT and not self._bases_stand(candidate):
            return False
        if self._deltas and not shows_lines(candidate, form) and not self._may_leave(index):
            return False
        return form < self.forms[index] and cost != NOT_OFFERED and cost < self.cost(index)

    def lower(self, index: int, form: Form, reason: str) -> None:
        """Put an item down to `form`. A delta that refers to it becomes a stub with it, or the fold takes it too."""
        cost = max(0, self.candidates[index].costs[form])
        self._sum += cost - self._costs[index]
        self.forms[index], self._costs[index] = form, cost
        self._digest = None
        self._reasons[index] = reason
        if form is Form.EXCERPT:
            self._refer(index)
        if not shows_lines(self.candidates[index], form):
            for delta in self.deltas_on(index):
                self.lower(delta, Form.STUB, f"referred to {self.candidates[index].id}, which left")

    def deltas_on(self, index: int) -> list[int]:
        """The deltas in the window that say of some lines that they stand in this item."""
        if not self._deltas:
            return []
        return sorted(delta for delta in self._deltas.get(index, ()) if self.forms[delta] is Form.EXCERPT)

    def _may_leave(self, index: int) -> bool:
        """Could every delta on this item become a stub, and those on that delta?"""
        waiting, met = [index], {index}
        while waiting:
            for delta in self.deltas_on(waiting.pop()):
                if self.candidates[delta].costs[Form.STUB] == NOT_OFFERED:
                    return False
                if delta not in met:
                    met.add(delta)
                    waiting.append(delta)
        return True

    def without_needed_bases(self, groups: Sequence[range]) -> list[range]:
        """Those of `groups` that can go together: none of them is referred to by a delta that would stay."""
        if not self._deltas:
            return list(groups)
        left = list(groups)
        while True:
            going = {index for group in left for index in group}
            kept = [group for group in left if all(going.issuperset(self.deltas_on(index)) for index in group)]
            if len(kept) == len(left):
                return kept
            left = kept

    def _refer(self, index: int) -> None:
        for base in self.candidates[index].bases:
            if base in self._survey.at:
                self._deltas.setdefault(self._survey.at[base], set()).add(index)

    def _bases_stand(self, candidate: Candidate) -> bool:
        return all(base in self._survey.at and shows_lines(self.candidates[at := self._survey.at[base]], self.forms[at])
                   for base in candidate.bases)  # fmt: skip

    def reset(self) -> None:
        """Back to the held forms: what was tried is not worth it."""
        self.forms = list(self._held)
        self._costs, self._sum = list(self._survey.costs), self._survey.tokens
        self._digest = None
        self._reasons = {}

    def groups(self) -> Sequence[range]:
        """Index ranges of the groups, in order."""
        return self._survey.groups

    def can_fold(self, group: range) -> bool:
        """Is the whole group behind us, seen, unpinned and not folded yet?"""
        if group.stop > self.edge:
            return False
        if self._survey.stuck.find(1, group.start, group.stop) >= 0:
            return False
        if self._deltas and not all(self._may_leave(index) for index in group):
            return False
        return max(self.forms[group.start : group.stop]) > Form.FOLDED

    def foldable_before(self, stop: int) -> list[range]:
        """The groups that end by `stop`, hold no user message and can be folded."""
        forms, folded = self.forms, Form.FOLDED
        stop = min(stop, self.edge)
        groups = self._survey.open
        found = [group for group in groups if group.stop <= stop and max(forms[group.start : group.stop]) > folded]
        if self._deltas:
            found = [group for group in found if all(self._may_leave(index) for index in group)]
        return found

    def cost_of(self, groups: Sequence[range]) -> int:
        """Tokens of these groups in their present forms."""
        costs = self._costs
        return sum([sum(costs[group.start : group.stop]) for group in groups])

    def fold(self, group: range, reason: str) -> None:
        for index in reversed(group):  # a delta before its base
            if self.forms[index] > Form.FOLDED:
                self.lower(index, Form.FOLDED, reason)

    def finish(self, reason: str, memory: Mapping[str, float] | None = None) -> Selection:
        """The selection. Items that only kept their form say so."""
        if self._survey.is_as_held and not self.is_changed:
            # The common case, and it must not cost what the list is long.
            return Selection(Unchanged(self.candidates, self._held), "", memory or {}, is_carried=True)
        choices = tuple(
            Choice(
                candidate.id,
                form,
                self._reasons.get(index) or _standing_reason(candidate, form),
                keep=self.keep.get(index, ()) if form is Form.FOLDED else (),
            )
            for index, (candidate, form) in enumerate(zip(self.candidates, self.forms, strict=True))
        )
        return Selection(choices, reason if self.is_changed else "", {} if memory is None else memory)


class Unchanged(Sequence[Choice]):
    """The choices of a window that only grew; each is made when it is asked for."""

    def __init__(self, candidates: Sequence[Candidate], forms: Sequence[Form]) -> None:
        self._candidates = candidates
        self._forms = forms

    def __len__(self) -> int:
        return len(self._candidates)

    @overload
    def __getitem__(self, index: int) -> Choice: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Choice, ...]: ...
    def __getitem__(self, index: int | slice) -> Choice | tuple[Choice, ...]:
        if isinstance(index, slice):
            return tuple(map(_standing_choice, self._candidates[index], self._forms[index]))
        return _standing_choice(self._candidates[index], self._forms[index])

    def __iter__(self) -> Iterator[Choice]:
        return map(_standing_choice, self._candidates, self._forms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def _standing_choice(candidate: Candidate, form: Form) -> Choice:
    return Choice(candidate.id, form, _standing_reason(candidate, form))


def _standing_reason(candidate: Candidate, form: Form) -> str:
    if form is not Form.FULL:
        return "held"
    if candidate.is_pinned:
        return "pinned"
    return "" if candidate.is_seen else "new"
