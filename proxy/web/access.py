"""Who may see what was said: an administrator with the key, or the one person of a machine that serves nobody else.

Everyone else gets the answer of a path that does not exist, whatever they ask for.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address

from proxy.core.headers import FORWARDED

COOKIE = "undercliff_admin"
SESSION_S = 12 * 3600
_FORWARDED = tuple(name.decode() for name in FORWARDED)
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]@/]+)(?::\d{1,5})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Access:
    """`is_private`: listens on loopback alone and knows no client keys, so its caller is its owner."""

    admin_key: str
    is_private: bool

    def allows(self, headers: Mapping[str, str], cookies: Mapping[str, str], peer: str) -> bool:
        if self.admin_key:
            return self.is_key(_bearer(headers)) or self._is_session(cookies.get(COOKIE, ""))
        # A page elsewhere that has its name point here would come with its own host; a proxy on this machine, with
        # a header that says so.
        is_direct = not any(name in headers for name in _FORWARDED)
        return self.is_private and is_direct and is_loopback(peer) and _is_own_host(headers.get("host", ""))

    def is_key(self, key: str) -> bool:
        given, known = (sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (key, self.admin_key))
        return bool(self.admin_key) and hmac.compare_digest(given, known)

    def session(self, now: float | None = None) -> str:
        """What a browser keeps instead of the key."""
        until = str(int((time.time() if now is None else now) + SESSION_S))
        return f"{until}.{self._mark(until)}"

    def _is_session(self, cookie: str) -> bool:
        until, _, mark = cookie.partition(".")
        if not until.isascii() or not until.isdigit() or not mark.isascii():
            return False
        return hmac.compare_digest(mark, self._mark(until)) and int(until) > time.time()

    def _mark(self, until: str) -> str:
        return hmac.new(
            self.admin_key.encode("utf-8", "surrogateescape"), f"session {until}".encode(), sha256
        ).hexdigest()


def is_loopback(host: str) -> bool:
    if host in ("localhost", "local", ""):
        return host != ""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_foreign(method: str, path: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser says that another site's page asks: it may link here, and do no more than that."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    is_link = method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
    return not is_link or headers.get("sec-fetch-dest", "document") != "document" or path == "/ctx/export"


def _is_own_host(value: str) -> bool:
    """Whether a Host header names this machine's loopback, with or without a port, and nothing else."""
    found = _HOST.fullmatch(value)
    return found is not None and found["name"] != "local" and is_loopback(found["name"])


def _bearer(headers: Mapping[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-undercliff-key", "")
