"""A policy of one's own, as the README shows it: calls of a tool that the owner names leave first, whole."""

from __future__ import annotations

from dataclasses import dataclass

from policies.draft import group_ranges, last_exchange
from policies.model import Candidate, Choice, Form, Selection, Situation


@dataclass(frozen=True, slots=True)
class ForgetOptions:
    """`tool`: calls of this tool fold first. Checked when the proxy starts."""

    tool: str = "search"

    def __post_init__(self) -> None:
        if not self.tool:
            raise ValueError("tool must name a tool")


class Forget:
    name = "forget"
    options_type = ForgetOptions

    def __init__(self, options: ForgetOptions) -> None:
        self.options = options

    def select(self, situation: Situation) -> Selection:
        items = situation.candidates
        room = min(situation.budget.room, situation.pressure.target if situation.pressure else situation.budget.room)
        over = sum(item.tokens for item in items) - room
        edge = last_exchange(items)
        groups = [g for g in group_ranges(items) if g.stop <= edge and all(_may_leave(items[i]) for i in g)]
        groups.sort(key=lambda g: all(items[i].tool != self.options.tool for i in g))  # stable: oldest first
        gone: set[int] = set()
        for group in groups:
            if over <= 0:
                break
            gone.update(group)
            over -= sum(items[i].tokens for i in group)
        choices = [Choice(i.id, Form.FOLDED if i.index in gone else Form.FULL, "made room") for i in items]
        return Selection(tuple(choices), f"folded {len(gone)} items" if gone else "")


def _may_leave(item: Candidate) -> bool:
    return item.is_seen and not item.is_pinned
