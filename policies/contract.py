"""The Policy protocol, and the rules that every answer must keep."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

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
    kept only of folded items and excerpts, in ascending order.
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


def _check_keep(candidate: Candidate, choice: Choice) -> None:
    if choice.form not in (Form.FOLDED, Form.EXCERPT):
        raise ContractError(f"item {candidate.id!r} is {choice.form.name} and keeps segments: only a reduced text does")
    if choice.keep[0] < 0 or any(after <= before for before, after in pairwise(choice.keep)):
        raise ContractError(f"item {candidate.id!r} keeps segments that are not in ascending order")
    if choice.keep[-1] >= len(candidate.text):
        raise ContractError(f"item {candidate.id!r} keeps a segment that its text does not have")


def _check_carried(situation: Situation) -> None:
    held = situation.held
    if not held:
        return
    reduced = [c for c in situation.candidates if held.get(c.id, Form.FULL) is not Form.FULL]
    for candidate in reduced:
        _check_reduced(candidate, held[candidate.id])
    removed = {candidate.group for candidate in reduced if held[candidate.id] <= Form.FOLDED}
    if not removed:
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
