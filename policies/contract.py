"""The Policy protocol, and the rules that every answer must keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Literal, Protocol

from policies.model import NOT_OFFERED, Candidate, Choice, Form, Selection, Situation


class Policy(Protocol):
    """Chooses a form for every item of a situation. Deterministic: same situation, same selection."""

    name: str

    def select(self, situation: Situation) -> Selection: ...


class ContractError(ValueError):
    """A selection that breaks a rule. The proxy answers it with a bypass, never with an error."""


def check(situation: Situation, selection: Selection) -> None:
    """Raise `ContractError` naming the first rule that `selection` breaks.

    The rules: one choice a candidate in order; only offered forms; pins in full; nothing below
    full that the model has not seen in full; whole groups folded or absent, or not at all; segments
    kept only of folded items and excerpts, in ascending order; a delta only while each of its bases
    stands in full or as a delta itself (which keeps the lines that it is referred to for).
    """
    if len(selection.choices) != len(situation.candidates):
        raise ContractError(f"{len(selection.choices)} choices for {len(situation.candidates)} candidates")
    if selection.is_carried:
        _check_carried(situation)
        return
    removed: dict[int, bool] = {}
    for candidate, choice in zip(situation.candidates, selection.choices, strict=True):
        if choice.id != candidate.id:
            raise ContractError(f"choice {choice.id!r} stands where candidate {candidate.id!r} was expected")
        if choice.form is not Form.FULL:
            _check_reduced(candidate, choice.form)
        if choice.keep:
            _check_keep(candidate, choice)
        is_removed = choice.form <= Form.FOLDED
        if removed.setdefault(candidate.group, is_removed) != is_removed:
            raise ContractError(f"group {candidate.group} is split at item {candidate.id!r}")
    chosen = {choice.id: _standing(candidate, choice) for candidate, choice in _reduced(situation, selection)}
    _check_bases(situation, chosen)


Stands = Literal["delta", "reduced"]
"""How an item stands that is not in full."""


def _reduced(situation: Situation, selection: Selection) -> Iterator[tuple[Candidate, Choice]]:
    pairs = zip(situation.candidates, selection.choices, strict=True)
    return ((candidate, choice) for candidate, choice in pairs if choice.form is not Form.FULL)


def _standing(candidate: Candidate, choice: Choice) -> Stands:
    return "delta" if is_delta(candidate, choice.form) and not choice.keep else "reduced"


def is_delta(candidate: Candidate, form: Form) -> bool:
    """Does this form of the item say of some lines that they stand in its bases?"""
    return form is Form.EXCERPT and candidate.excerpt == "delta"


def _check_bases(situation: Situation, reduced: Mapping[str, Stands]) -> None:
    """`reduced`: every item that is not in full."""
    if "delta" not in reduced.values():
        return
    by_id = {candidate.id: candidate for candidate in situation.candidates}
    for item, stands in reduced.items():
        if stands == "delta":
            for base in by_id[item].bases:
                if base not in by_id or reduced.get(base) == "reduced":
                    raise ContractError(f"item {item!r} is a delta on {base!r}, whose lines do not stand")


def _check_keep(candidate: Candidate, choice: Choice) -> None:
    if choice.form not in (Form.FOLDED, Form.EXCERPT):
        raise ContractError(f"item {candidate.id!r} is {choice.form.name} and keeps segments: only a reduced text does")
    if choice.keep[0] < 0 or any(after <= before for before, after in pairwise(choice.keep)):
        raise ContractError(f"item {candidate.id!r} keeps segments that are not in ascending order")
    if choice.keep[-1] >= len(candidate.text):
        raise ContractError(f"item {candidate.id!r} keeps a segment that its text does not have")


def _check_carried(situation: Situation) -> None:
    held, survey = situation.held, situation.survey
    if not held:
        return
    if survey is not None and survey.candidates is situation.candidates and survey.held is held and survey.is_as_held:
        return  # a survey keeps to the same rules, and says so only where all of what was held may stand
    full, form_of = Form.FULL, held.get
    reduced = [c for c in situation.candidates if form_of(c.id, full) is not full]
    for candidate in reduced:
        _check_reduced(candidate, held[candidate.id])
    _check_bases(situation, {c.id: "delta" if is_delta(c, held[c.id]) else "reduced" for c in reduced})
    gone = [candidate.group for candidate in reduced if held[candidate.id] <= Form.FOLDED]
    removed = set(gone)
    # Each group that lost a member lost all of them, or it is looked up which one did not.
    if not removed or sum(map(removed.__contains__, [c.group for c in situation.candidates])) == len(gone):
        return
    for candidate in situation.candidates:
        if candidate.group in removed and held.get(candidate.id, Form.FULL) > Form.FOLDED:
            raise ContractError(f"group {candidate.group} is split at item {candidate.id!r}")


def _check_reduced(candidate: Candidate, form: Form) -> None:
    if candidate.is_pinned:
        raise ContractError(f"pinned item {candidate.id!r} is not in full but {form.name}")
    if not candidate.is_seen:
        raise ContractError(f"item {candidate.id!r} is {form.name} before the model has seen it in full")
    if candidate.costs[form] == NOT_OFFERED:
        raise ContractError(f"item {candidate.id!r} has no form {form.name}")
