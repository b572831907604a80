"""A selection in the making: the forms of the previous window, carried on, and what may still be lowered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import overload

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
        self.forms, self._is_as_held = _held_forms(situation, self._at if situation.held else {})
        self._held = tuple(self.forms)
        self._costs = _costs(situation.candidates, self.forms)
        self._sum = self._sum_held = sum(self._costs)
        self._digest: int | None = None  # its tokens, until a form changes
        self._reasons: dict[int, str] = {}
        self.edge = last_exchange(situation.candidates)
        self.keep: dict[int, tuple[int, ...]] = {
            self._at[item]: keep for item, keep in situation.kept.items() if item in self._at
        }
        self._deltas: dict[int, set[int]] = {}  # by index of a base: the deltas that refer to it
        if Form.EXCERPT in self.forms:
            for index in [index for index, form in enumerate(self.forms) if form is Form.EXCERPT]:
                self._refer(index)

    @cached_property
    def _at(self) -> dict[str, int]:
        return {candidate.id: candidate.index for candidate in self.situation.candidates}

    @cached_property
    def _is_stuck(self) -> bytes:
        """One byte an item: 1 where it may not leave by the contract, wherever it stands."""
        return bytes([c.is_pinned or not c.is_seen or c.costs[Form.FOLDED] == NOT_OFFERED for c in self.candidates])

    @cached_property
    def _is_user(self) -> bytes:
        return bytes([candidate.kind == "user" for candidate in self.candidates])

    @cached_property
    def _groups(self) -> list[range]:
        return group_ranges(self.candidates)

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
            if all(held[index] is folded for index, form in enumerate(forms) if form is folded):
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
        if self._deltas and not _shows_lines(candidate, form) and not self._may_leave(index):
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
        if not _shows_lines(self.candidates[index], form):
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
            if base in self._at:
                self._deltas.setdefault(self._at[base], set()).add(index)

    def _bases_stand(self, candidate: Candidate) -> bool:
        return all(base in self._at and _shows_lines(self.candidates[at := self._at[base]], self.forms[at])
                   for base in candidate.bases)  # fmt: skip

    def reset(self) -> None:
        """Back to the held forms: what was tried is not worth it."""
        self.forms = list(self._held)
        self._costs, self._sum = _costs(self.candidates, self.forms), self._sum_held
        self._digest = None
        self._reasons = {}

    def groups(self) -> list[range]:
        """Index ranges of the groups, in order."""
        return self._groups

    def can_fold(self, group: range) -> bool:
        """Is the whole group behind us, seen, unpinned and not folded yet?"""
        if group.stop > self.edge:
            return False
        if self._is_stuck.find(1, group.start, group.stop) >= 0:
            return False
        if self._deltas and not all(self._may_leave(index) for index in group):
            return False
        return max(self.forms[group.start : group.stop]) > Form.FOLDED

    def foldable_before(self, stop: int) -> list[range]:
        """The groups that end by `stop`, hold no user message and can be folded."""
        user, stuck, forms = self._is_user, self._is_stuck, self.forms
        stop = min(stop, self.edge)
        found = []
        for group in self._groups:
            start, end = group.start, group.stop
            if end > stop:
                break
            if user.find(1, start, end) < 0 and stuck.find(1, start, end) < 0 and max(forms[start:end]) > Form.FOLDED:
                found.append(group)
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
        if self._is_as_held and not self.is_changed:
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
    numbers = [candidate.group for candidate in candidates]
    starts = [0, *[index for index, (a, b) in enumerate(pairwise(numbers), 1) if a != b]] if numbers else []
    return [range(start, stop) for start, stop in pairwise((*starts, len(numbers)))]


def _costs(candidates: Sequence[Candidate], forms: Sequence[Form]) -> list[int]:
    costs = [candidate.costs[form] for candidate, form in zip(candidates, forms, strict=True)]
    return costs if not costs or min(costs) >= 0 else [max(0, cost) for cost in costs]


def _shows_lines(candidate: Candidate, form: Form) -> bool:
    """Do the lines stand that a delta finds in this item? A delta keeps those that it is referred to for."""
    return form is Form.FULL or (form is Form.EXCERPT and candidate.excerpt == "delta")


def _standing_reason(candidate: Candidate, form: Form) -> str:
    if form is not Form.FULL:
        return "held"
    if candidate.is_pinned:
        return "pinned"
    return "" if candidate.is_seen else "new"


def _held_forms(situation: Situation, at: Mapping[str, int]) -> tuple[list[Form], bool]:
    """The previous forms, as far as the contract still allows them, and whether it allows them all."""
    candidates = situation.candidates
    forms = [Form.FULL] * len(candidates)
    if not situation.held:
        return forms, True
    reduced = sorted([at[item] for item, form in situation.held.items() if item in at and form is not Form.FULL])
    dropped = 0
    for index in reduced:
        candidate = candidates[index]
        form = situation.held[candidate.id]
        if not candidate.is_pinned and candidate.is_seen and candidate.costs[form] != NOT_OFFERED:
            forms[index] = form
        else:
            dropped += 1
    for index in reduced:
        # What a delta refers to may be gone from the client's list: then the whole text must stand again.
        if forms[index] is Form.EXCERPT and not all(
            base in at and _shows_lines(candidates[at[base]], forms[at[base]]) for base in candidates[index].bases
        ):
            forms[index] = Form.FULL
            dropped += 1
    if _are_groups_whole(candidates, [index for index in reduced if forms[index] <= Form.FOLDED], forms):
        return forms, not dropped
    _mend_groups(candidates, forms)
    return forms, False


def _are_groups_whole(candidates: Sequence[Candidate], removed: Sequence[int], forms: Sequence[Form]) -> bool:
    """Are those items whole groups, each in one form?"""
    for place, index in enumerate(removed):
        group, form = candidates[index].group, forms[index]
        before = removed[place - 1] if place else -1
        if before != index - 1:
            if index and candidates[index - 1].group == group:
                return False
        elif forms[before] is not form and candidates[before].group == group:
            return False
        after = removed[place + 1] if place + 1 < len(removed) else -1
        if after != index + 1 and index + 1 < len(candidates) and candidates[index + 1].group == group:
            return False
    return True


def _mend_groups(candidates: Sequence[Candidate], forms: list[Form]) -> None:
    """A group that gained a member after it was folded (a late result) must come back whole."""
    for group in group_ranges(candidates):
        removed = [index for index in group if forms[index] <= Form.FOLDED]
        if removed and len(removed) < len(group):
            for index in removed:
                forms[index] = Form.FULL
        elif len({forms[index] for index in removed}) > 1:
            for index in removed:
                forms[index] = Form.FOLDED if candidates[index].costs[Form.FOLDED] >= 0 else Form.ABSENT
