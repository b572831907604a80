"""The baseline to beat: pins and the newest whole groups that fit; what is older is absent. Slides every call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policies.draft import group_ranges, last_exchange
from policies.model import NOT_OFFERED, Candidate, Choice, Form, Selection, Situation


@dataclass(frozen=True, slots=True)
class LastNOptions:
    """`messages`: keep about so many of the newest items, in whole groups; 0 keeps what fits the budget."""

    messages: int = 0

    def __post_init__(self) -> None:
        if self.messages < 0:
            raise ValueError("messages must be 0 or more")


class LastN:
    """Keeps the newest. The last exchange stays whatever it costs."""

    name = "last_n"
    options_type = LastNOptions

    def __init__(self, options: LastNOptions | None = None) -> None:
        self.options = options or LastNOptions()

    def select(self, situation: Situation) -> Selection:
        candidates = situation.candidates
        groups = group_ranges(candidates)
        kept = self._newest(situation, groups)
        _drop_headless(candidates, groups, kept)
        forms: dict[int, Form] = {}
        for number, group in enumerate(groups):
            is_in = number in kept or not _can_drop(candidates, group)
            forms.update((index, Form.FULL if is_in else Form.ABSENT) for index in group)
        choices = tuple(
            Choice(candidate.id, forms[index], "" if forms[index] is Form.FULL else "older than the newest that fit")
            for index, candidate in enumerate(candidates)
        )
        is_cut = any(form is Form.ABSENT for form in forms.values())
        return Selection(choices, "kept the newest groups" if is_cut else "")

    def _newest(self, situation: Situation, groups: Sequence[range]) -> set[int]:
        """Numbers of the groups that stay, newest first, until one does not fit."""
        candidates = situation.candidates
        edge = last_exchange(candidates)
        pressure = situation.pressure
        room = min(situation.budget.room, pressure.target) if pressure else situation.budget.room
        fixed = [number for number, group in enumerate(groups) if not _can_drop(candidates, group)]
        used = sum(candidates[index].tokens for number in fixed for index in groups[number])
        count = 0
        kept = set(fixed)
        for number in range(len(groups) - 1, -1, -1):
            group = groups[number]
            if number not in kept:
                tokens = sum(candidates[index].tokens for index in group)
                is_over = used + tokens > room or bool(self.options.messages and count >= self.options.messages)
                if is_over and group.stop <= edge:
                    break
                used += tokens
                kept.add(number)
            count += sum(not candidates[index].is_pinned for index in group)
        return kept


def _can_drop(candidates: Sequence[Candidate], group: range) -> bool:
    return all(
        candidates[index].is_seen
        and not candidates[index].is_pinned
        and candidates[index].costs[Form.ABSENT] != NOT_OFFERED
        for index in group
    )


def _drop_headless(candidates: Sequence[Candidate], groups: Sequence[range], kept: set[int]) -> None:
    """Let the list begin, behind its pins, with a user message or an assistant turn.

    A lone result or an unknown element that followed something now gone would hang in the air.
    """
    is_cut = False
    for number, group in enumerate(groups):
        if number not in kept:
            is_cut = True
            continue
        if not is_cut:
            continue
        if not _can_drop(candidates, group):
            continue
        if any(candidates[index].kind in ("user", "assistant") for index in group):
            return
        kept.discard(number)
