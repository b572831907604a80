"""The block that start-up prints: where we listen, where requests go, and the line to export. Pure; names no key."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

from proxy.config import Config
from proxy.core.redaction import redact

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}


def banner(config: Config, *, port: int | None = None, store_note: str = "") -> str:
    """What to print once the socket listens. `port` is the real one; `store_note` says what is wrong with the store."""
    address = client_url(config, port)
    rows = [
        ("listening", f"{address.removesuffix('/v1')}  ({_who(config)})"),
        ("upstream", f"{redact(config.upstream.url)}  ({_whose_key(config)})"),
        ("store", store_note or _store(config)),
        ("policy", config.policy.name),
    ]
    lines = [f"undercliff {product_version()}", ""]
    lines += [f"  {name:<10} {value}" for name, value in rows]
    lines += [f"  {'warning':<10} {text}" for text in warnings(config)]
    lines += ["", "  Point an agent at it:", "", f"    export OPENAI_BASE_URL={address}", ""]
    return "\n".join(lines)


def client_url(config: Config, port: int | None = None) -> str:
    """The base URL for clients on this machine."""
    host = _ANY_ADDRESS.get(config.server.host, config.server.host)
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{config.server.port if port is None else port}/v1"


def warnings(config: Config) -> list[str]:
    """What is allowed but is likely to be a mistake."""
    found = []
    upstream = config.upstream
    if upstream.is_managed and not upstream.key:
        found.append(f"{upstream.key_env} is not set: every request will be refused until it is")
    if config.server.client_keys and not upstream.is_managed:
        found.append("upstream.key_env is not set: clients must send their client key as x-undercliff-key")
    if config.server.allow_public and not config.server.client_keys:
        found.append("anyone who reaches this address can use it (allow_public)")
    if not upstream.verify_tls:
        found.append("the provider's certificate is not checked (upstream.verify_tls)")
    parts = urlsplit(upstream.url)
    if parts.port == config.server.port and parts.hostname in ("127.0.0.1", "localhost", "::1"):
        found.append("the upstream is this proxy itself: requests would go round in circles")
    return found


def product_version() -> str:
    """The installed version."""
    try:
        return version("undercliff")
    except PackageNotFoundError:
        return "(not installed)"


def _who(config: Config) -> str:
    count = len(config.server.client_keys)
    if count:
        return f"{count} client {'key' if count == 1 else 'keys'}"
    return "anyone" if config.server.allow_public else "this machine only"


def _whose_key(config: Config) -> str:
    if config.upstream.is_managed:
        return f"key from {config.upstream.key_env}"
    return "the client's own key"


def _store(config: Config) -> str:
    return redact(config.store.url) if config.store.enabled else "none: nothing is kept, nothing is reduced"
