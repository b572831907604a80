"""Which conversations a list or an export is about. Pure: says what is wanted, finds nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

OUTCOMES = ("ok", "error", "overflow", "cancelled", "interrupted", "incomplete", "bypass")


@dataclass(frozen=True, slots=True)
class Filters:
    """A conversation is meant when one of its exchanges fits all of them; then the whole of it is.

    `model` may hold `*`; `since` is included and `until` is not, both as ISO 8601 in UTC.
    """

    conversations: tuple[str, ...] = ()
    tenant: str = ""
    model: str = ""
    since: str = ""
    until: str = ""
    outcome: str = ""

    @property
    def asks_exchanges(self) -> bool:
        return bool(self.tenant or self.model or self.since or self.until or self.outcome)

    @property
    def is_open(self) -> bool:
        """True if nothing is left out."""
        return not self.asks_exchanges and not self.conversations

    def in_utc(self) -> Filters:
        """The same with both times as they are stored. Raises ValueError for what is no time."""
        return replace(self, since=utc_stamp(self.since), until=utc_stamp(self.until))


def utc_stamp(text: str) -> str:
    """A date or a time in any offset as it is stored: UTC, microseconds, Z. Without an offset it is UTC."""
    if not text:
        return ""
    moment = datetime.fromisoformat(text.strip())
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
