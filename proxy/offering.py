"""Decides whether a request carries the tool that expands, always with the same bytes at the same place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from policies.model import Form
from proxy.config.sections import ExpandConfig
from proxy.core.model import Conversation
from proxy.core.window import Slot
from proxy.tokenizer import Tokenizer
from proxy.wire.base import WireFormat


@dataclass(frozen=True, slots=True)
class Offer:
    """`definition` goes into the request, empty when the tool is not offered; `name` is whose calls are ours."""

    name: str = ""
    definition: bytes = b""
    tokens: int = 0


class Offering:
    """Without state but for the count of one definition."""

    def __init__(self, config: ExpandConfig, tokenizer: Tokenizer) -> None:
        self._config = config
        self._tokenizer = tokenizer

    def offer(
        self,
        fmt: WireFormat,
        conversation: Conversation,
        slots: Sequence[Slot],
        *,
        tenant: str,
        before: str,
        is_managed: bool,
    ) -> Offer:
        """`before`: the name under which this conversation was offered the tool already, "" when it was not."""
        name = before or self._config.name
        if name in conversation.tool_names:
            return Offer()
        # What the model saw it call or was offered once it may call again, also where a request leaves it out.
        hidden = Offer(name) if conversation.hidden or before else Offer()
        if not is_managed or conversation.tool_room == "closed" or not self._is_on(conversation.model, tenant):
            return hidden
        is_wanted = self._config.offer == "always" or any(slot.form is not Form.FULL for slot in slots)
        if not (before or (conversation.tool_room == "open" and is_wanted)):
            return hidden
        definition = fmt.tool(name)
        return Offer(name, definition, self._tokenizer.count(definition.decode()))

    def _is_on(self, model: str, tenant: str) -> bool:
        """Is the tool offered to this model and team at all?"""
        config = self._config
        if not config.enabled or any(tenant.startswith(team) for team in config.off_teams if team):
            return False
        return not any(fnmatchcase(model, pattern) for pattern in config.off_models)
