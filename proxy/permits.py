"""Which models a team may call. Reads the body that goes upstream, so that no other path leads round it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from proxy.relay import Responder
from proxy.wire.errors import JSON_HEADERS, api_error
from proxy.wire.model_name import models_of


@dataclass(frozen=True, slots=True)
class Permits:
    """`models` are patterns; none allow everything."""

    team: str = ""
    models: Sequence[str] = ()

    async def refuses(self, body: bytes, respond: Responder) -> bool:
        """Answer a request that may not go on. True: it was answered."""
        refusal = self.refusal(body)
        if refusal is None:
            return False
        await respond.full(403, JSON_HEADERS, refusal)
        return True

    def refusal(self, body: bytes) -> bytes | None:
        """The error to answer with; None for a request that may go on."""
        if not self.models:
            return None
        names = models_of(body) or []
        wrong = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in self.models)]
        if names and not wrong:
            return None
        named = f"the model {wrong[0][:200]!r} is not allowed" if wrong else "this request names no model"
        allowed = ", ".join(self.models)
        message = f"{named} for team {self.team}; it may call {allowed} (teams.{self.team}.allowed_models)"
        return api_error(message, code="model_not_allowed")


ALL = Permits()
"""Every model may be called."""
