"""One look over a situation's list, kept while it grows: where groups lie, what was held, what may be folded. Pure.

An agent sends the same list with every request, and a little more. So a survey is made from that of the
shorter list, and only what is new is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import is_

from policies.model import NOT_OFFERED, Candidate, Form, Situation, Survey

_EMPTY = Survey((), {}, {}, (), (), True, (), 0, b"", (), 0, 0)


def survey_of(situation: Situation) -> Survey:
    """The situation's own survey where it has that of these very candidates and forms, else a new one."""
    own = situation.survey
    if own is not None and own.candidates is situation.candidates and own.held is situation.held:
        return own
    return survey(situation.candidates, situation.held)


def survey(candidates: tuple[Candidate, ...], held: Mapping[str, Form], known: Survey | None = None) -> Survey:
    """What follows from a list and the forms held in it. `known`, of a shorter list, spares work, nothing else."""
    start = _shared(candidates, held, known)
    if known is None or not start:
        return _extended(_EMPTY, candidates, held, 0)
    if start == len(candidates) == len(known.candidates):
        return known
    return _extended(known, candidates, held, start)


def _shared(candidates: tuple[Candidate, ...], held: Mapping[str, Form], known: Survey | None) -> int:
    """How many items at the start can be taken from `known`: whole groups of them, and all that is held among them."""
    if known is None or known.held is not held or not known.is_as_held:
        return 0
    start = bytes(map(is_, candidates, known.candidates)).find(0)
    start = min(len(candidates), len(known.candidates)) if start < 0 else start
    while start and not (_is_between(candidates, start) and _is_between(known.candidates, start)):
        start -= 1
    is_whole = start >= known.held_end and not any(candidate.id in held for candidate in candidates[start:])
    return start if is_whole else 0


def _is_between(candidates: Sequence[Candidate], index: int) -> bool:
    """Does a group end before this index?"""
    return index == len(candidates) or candidates[index - 1].group != candidates[index].group


def _extended(known: Survey, candidates: tuple[Candidate, ...], held: Mapping[str, Form], start: int) -> Survey:
    """The survey of all, of which the first `start` items are known and the others are not held, or none is known."""
    fresh = candidates[start:]
    at = dict(known.at)
    for gone in known.candidates[start:]:
        at.pop(gone.id, None)
    at.update([(candidate.id, candidate.index) for candidate in fresh])
    new = group_ranges(fresh, start)
    groups = (*[group for group in known.groups if group.stop <= start], *new)
    if start or not held:
        forms = (*known.forms[:start], *[Form.FULL] * len(fresh))
        is_as_held, held_end = known.is_as_held or not start, known.held_end
    else:
        made, is_as_held = _held_forms(candidates, held, at)
        forms = tuple(made)
        held_end = 1 + max([at[item] for item in held if item in at], default=-1)
    costs = (*known.costs[:start], *costs_of(fresh, forms[start:]))
    folded = Form.FOLDED
    fixed = [c.is_pinned or not c.is_seen or c.costs[folded] == NOT_OFFERED for c in fresh]
    stuck = known.stuck[:start] + bytes(fixed)
    barred = bytes([is_fixed or c.kind == "user" for is_fixed, c in zip(fixed, fresh, strict=True)])
    kept = [group for group in known.open if group.stop <= start]
    opened = [
        group
        for group in new
        if barred.find(1, group.start - start, group.stop - start) < 0 and max(forms[group.start : group.stop]) > folded
    ]
    return Survey(
        candidates=candidates,
        held=held,
        at=at,
        groups=groups,
        forms=forms,
        is_as_held=is_as_held,
        costs=costs,
        tokens=sum(costs),
        stuck=stuck,
        open=(*kept, *opened),
        edge=last_exchange(candidates),
        held_end=held_end,
    )


def last_exchange(candidates: Sequence[Candidate]) -> int:
    """Index of the first item of the newest assistant turn; 0 when the model has not spoken."""
    last = next((c.index for c in reversed(candidates) if c.kind == "assistant"), None)
    if last is None:
        return 0
    while last > 0 and candidates[last - 1].group == candidates[last].group:
        last -= 1
    return last


def group_ranges(candidates: Sequence[Candidate], first: int = 0) -> list[range]:
    """Index ranges of the groups, in order; `first` is the index of the first item."""
    numbers = [candidate.group for candidate in candidates]
    starts = [0, *[index for index, (a, b) in enumerate(pairwise(numbers), 1) if a != b]] if numbers else []
    return [range(first + start, first + stop) for start, stop in pairwise((*starts, len(numbers)))]


def costs_of(candidates: Sequence[Candidate], forms: Sequence[Form]) -> list[int]:
    costs = [candidate.costs[form] for candidate, form in zip(candidates, forms, strict=True)]
    return costs if not costs or min(costs) >= 0 else [max(0, cost) for cost in costs]


def shows_lines(candidate: Candidate, form: Form) -> bool:
    """Do the lines stand that a delta finds in this item? A delta keeps those that it is referred to for."""
    return form is Form.FULL or (form is Form.EXCERPT and candidate.excerpt == "delta")


def _held_forms(
    candidates: Sequence[Candidate], held: Mapping[str, Form], at: Mapping[str, int]
) -> tuple[list[Form], bool]:
    """The previous forms, as far as the contract still allows them, and whether it allows them all."""
    forms = [Form.FULL] * len(candidates)
    reduced = sorted([at[item] for item, form in held.items() if item in at and form is not Form.FULL])
    dropped = 0
    for index in reduced:
        candidate = candidates[index]
        form = held[candidate.id]
        if not candidate.is_pinned and candidate.is_seen and candidate.costs[form] != NOT_OFFERED:
            forms[index] = form
        else:
            dropped += 1
    for index in reduced:
        # What a delta refers to may be gone from the client's list: then the whole text must stand again.
        if forms[index] is Form.EXCERPT and not all(
            base in at and shows_lines(candidates[at[base]], forms[at[base]]) for base in candidates[index].bases
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
