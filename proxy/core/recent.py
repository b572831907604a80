"""Which items of a list belong to the work of now: expanded in this turn, or answered by the model already. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.core.kinds import kind_of
from proxy.core.model import Conversation


def of_this_turn(conversation: Conversation, ids: Sequence[str]) -> frozenset[str]:
    """What was expanded since the user last spoke: it stays in full for as long as the work on that goes on."""
    if not conversation.hidden:
        return frozenset()
    elements = conversation.elements
    start = max((index for index, element in enumerate(elements) if kind_of(element) == "user"), default=0)
    return conversation.hidden.intersection(ids[start:])


def answered(conversation: Conversation, ids: Sequence[str]) -> set[str]:
    """Ids of what a model has spoken behind, here or elsewhere: where the whole is refused, that counts as seen."""
    elements = conversation.elements
    last = max((index for index, element in enumerate(elements) if kind_of(element) == "assistant"), default=0)
    return set(ids[:last])
