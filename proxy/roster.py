"""Which team a request belongs to, by its client key: keys of the configuration and of the store, looked up as hashes.

A key opens its own team's conversations and nothing else. What the store says of keys is read again every
few seconds, so that a new or ended key counts on every replica without a restart.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from proxy.auth import OWN_KEY, Caller, key_of, outgoing_headers
from proxy.config import TeamConfig
from proxy.core.client_keys import hash_key
from proxy.core.headers import RawHeaders, header
from proxy.core.records import ClientKeyRow
from proxy.errors import StoreError
from proxy.store.base import Store

STALE_S = 5.0
"""So old may be what is known of the store's keys."""

log = structlog.get_logger()


def tenant_of(team: str) -> str:
    """A team's tenant: all its keys lead to the same conversations. No caller without a team has such a name."""
    return f"team:{team}"


@dataclass(frozen=True, slots=True)
class _Known:
    """A key that counts. `digest` is compared in constant time after it was found by its value."""

    digest: bytes
    team: str
    until: str = ""


@dataclass(slots=True)
class Roster:
    """Stands where `auth.Gate` stands when there are teams."""

    teams: Mapping[str, TeamConfig]
    store: Store
    clock: Callable[[], float] = time.time
    _own: dict[bytes, _Known] = field(default_factory=dict)
    _stored: dict[bytes, _Known] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        for name, team in self.teams.items():
            for key in team.client_keys:
                self._own[hash_key(key)] = _Known(hash_key(key), name)

    async def refresh(self) -> None:
        """Read the store's keys again when they are old. While the store is away the last known ones count."""
        if self.clock() - self._read_at < STALE_S or (self._reading.locked() and self._stored):
            return
        async with self._reading:
            if self.clock() - self._read_at < STALE_S:
                return
            try:
                rows = await self.store.client_keys()
            except StoreError as error:
                log.warning("client_keys_not_read", error=str(error))
            else:
                self._stored = {row.hash: _Known(row.hash, row.team, row.revoked_at) for row in rows}
            self._read_at = self.clock()

    def admit(self, headers: RawHeaders, peer: str) -> Caller | None:
        """The caller, or None when it has no key of a team. `peer` does not count: a key does."""
        own = header(headers, OWN_KEY)
        team = self._team(own or key_of(headers))
        if not team:
            return None
        config = self.teams[team].config
        assert config is not None
        if not config.upstream.is_managed and not own:
            return None  # it came where the provider's key belongs: it would go upstream
        provider_key = config.upstream.key if config.upstream.is_managed else None
        return Caller(tenant_of(team), outgoing_headers(headers, provider_key), team)

    def _team(self, key: str) -> str:
        digest = hash_key(key)
        known = self._own.get(digest) or self._stored.get(digest) or _NOBODY
        is_same = hmac.compare_digest(known.digest, digest)
        is_ended = bool(known.until) and known.until <= _utc(self.clock())
        return known.team if is_same and not is_ended and known.team in self.teams else ""


_NOBODY = _Known(bytes(32), "")


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def ended(row: ClientKeyRow, moment: float) -> bool:
    """Does this key count no more?"""
    return bool(row.revoked_at) and row.revoked_at <= _utc(moment)
