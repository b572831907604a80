"""Who is calling, and with which key the provider is called. No key leaves this module but upstream."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from proxy.core.headers import RawHeaders, header

OWN_KEY = b"x-undercliff-key"
_KEY_HEADERS = (b"authorization", b"api-key", b"x-api-key")
_IDENTITY_HEADERS = (b"openai-organization", b"openai-project")


@dataclass(frozen=True, slots=True)
class Caller:
    """An admitted client. `tenant` is an HMAC: it tells callers apart and gives no key away."""

    tenant: str
    headers: RawHeaders  # what goes upstream


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

    def admit(self, headers: RawHeaders, peer: str) -> Caller | None:
        """The caller, or None when it has no valid client key."""
        own = header(headers, OWN_KEY)
        bearer = _key_of(headers)
        if self._digests and not self._is_known(own or (bearer if self._is_managed else "")):
            return None
        outgoing = [(n, v) for n, v in headers if n.lower() != OWN_KEY]
        if self._is_managed:
            outgoing = [(n, v) for n, v in outgoing if n.lower() not in _KEY_HEADERS]
            outgoing.append((b"authorization", b"Bearer " + self._provider_key.encode("latin-1")))
        return Caller(self._tenant(headers, own or bearer, peer), outgoing)

    def _is_known(self, key: str) -> bool:
        digest = sha256(key.encode("utf-8", "surrogatepass")).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches)

    def _tenant(self, headers: RawHeaders, key: str, peer: str) -> str:
        parts = [key.encode("utf-8", "surrogatepass") if key else b"anon:" + peer.encode(), self._upstream]
        parts += [header(headers, name).encode() for name in _IDENTITY_HEADERS]
        return hmac.new(self._secret, b"\0".join(parts), sha256).hexdigest()[:24]


def _key_of(headers: RawHeaders) -> str:
    for name in _KEY_HEADERS:
        if value := header(headers, name):
            scheme, _, rest = value.partition(" ")
            return rest.strip() if scheme.lower() == "bearer" else value
    return ""
