"""Who is calling, and with which key the provider is called. No key leaves this module but upstream."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from proxy.config import StoreConfig
from proxy.core.headers import RawHeaders, header
from proxy.store.open import file_of
from proxy.store.secret import SECRET_BYTES, keep_secret, secret_file
from proxy.store.sqlite_connection import store_error

OWN_KEY = b"x-undercliff-key"
_KEY_HEADERS = (b"authorization", b"api-key", b"x-api-key", b"x-goog-api-key")
_IDENTITY_HEADERS = (b"openai-organization", b"openai-project")
_SHORTEST_KEY = 4  # less is a placeholder such as "x", and would mask half of every text


@dataclass(frozen=True, slots=True)
class Caller:
    """An admitted client. `tenant` is an HMAC: it tells callers apart and gives no key away."""

    tenant: str
    headers: RawHeaders  # what goes upstream
    team: str = ""  # "" where there are no teams


class Door(Protocol):
    """Who checks callers: a `Gate`, or a `Roster` of teams."""

    async def refresh(self) -> None:
        """Look at what may have changed since; cheap, and before every `admit`."""
        ...

    def admit(self, headers: RawHeaders, peer: str) -> Caller | None:
        """The caller, or None when it has no valid client key."""
        ...


class Gate:
    """Checks client keys and chooses the provider's key.

    Managed (`provider_key` set): every request goes out with that key, whatever the client sent.
    Otherwise the client's own key passes through, and a client key of ours comes in
    `x-undercliff-key`, so that the two can never be mixed up.
    """

    def __init__(
        self, *, client_keys: Sequence[str], is_managed: bool, provider_key: str, secret: bytes, upstream: str
    ):
        self._digests = [sha256(key.encode()).digest() for key in client_keys]
        self._is_managed = is_managed
        self._provider_key = provider_key
        self._secret = secret
        self._upstream = upstream.encode()

    async def refresh(self) -> None:
        """Its keys are those of the configuration."""

    def admit(self, headers: RawHeaders, peer: str) -> Caller | None:
        """The caller, or None when it has no valid client key."""
        own = header(headers, OWN_KEY)
        bearer = key_of(headers)
        if self._digests and not self._is_known(own or (bearer if self._is_managed else "")):
            return None
        outgoing = outgoing_headers(headers, self._provider_key if self._is_managed else None)
        return Caller(self._tenant(headers, own or bearer, peer), outgoing)

    def _is_known(self, key: str) -> bool:
        digest = sha256(key.encode("utf-8", "surrogatepass")).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches)

    def _tenant(self, headers: RawHeaders, key: str, peer: str) -> str:
        # The tag in front: a key that spells an address must not be the caller from there.
        who = b"key:" + key.encode("utf-8", "surrogatepass") if key else b"anon:" + peer.encode()
        parts = [who, self._upstream]
        parts += [header(headers, name).encode() for name in _IDENTITY_HEADERS]
        return hmac.new(self._secret, b"\0".join(parts), sha256).hexdigest()[:24]


def outgoing_headers(headers: RawHeaders, provider_key: str | None) -> RawHeaders:
    """What goes upstream: never a client key of ours, and the provider's key in place of any other, where it is set."""
    outgoing = [(n, v) for n, v in headers if n.lower() != OWN_KEY]
    if provider_key is not None:
        outgoing = [(n, v) for n, v in outgoing if n.lower() not in _KEY_HEADERS]
        outgoing.append((b"authorization", b"Bearer " + provider_key.encode("latin-1")))
    return outgoing


def key_of(headers: RawHeaders) -> str:
    for name in _KEY_HEADERS:
        if value := header(headers, name):
            scheme, _, rest = value.partition(" ")
            return rest.strip() if scheme.lower() == "bearer" else value
    return ""


def keys_in(headers: RawHeaders) -> tuple[str, ...]:
    """Every key that goes upstream with these headers, to be masked in what is written down."""
    values = (value.decode("latin-1") for name, value in headers if name.lower() in _KEY_HEADERS)
    keys = (value.partition(" ")[2].strip() or value for value in values)
    return tuple(key for key in keys if len(key) >= _SHORTEST_KEY)


def tenant_secret(store: StoreConfig) -> bytes:
    """The key of the tenant HMAC: kept beside a file store, and the same for all replicas of another.

    Raises `StoreError` when it cannot be kept and the store is required.
    """
    file = file_of(store.url)
    path = secret_file(file) if file is not None else Path(store.secret_file)
    if not store.enabled or (file is None and not store.secret_file):
        return secrets.token_bytes(SECRET_BYTES)
    try:
        return keep_secret(path)
    except OSError as error:
        if not store.required:
            return secrets.token_bytes(SECRET_BYTES)
        raise store_error(error, path, "open") from error
