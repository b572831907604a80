"""The off switch: every item in full, always, also under pressure."""

from __future__ import annotations

from dataclasses import dataclass

from policies.model import Choice, Form, Selection, Situation


@dataclass(frozen=True, slots=True)
class PassthroughOptions:
    """No options."""


class Passthrough:
    """Sends what the client sent."""

    name = "passthrough"
    options_type = PassthroughOptions

    def __init__(self, options: PassthroughOptions | None = None) -> None:
        self.options = options or PassthroughOptions()

    def select(self, situation: Situation) -> Selection:
        return Selection(tuple(Choice(candidate.id, Form.FULL, "") for candidate in situation.candidates))
