"""Where a request goes upstream: joins the configured base with the client's path. Pure; never decodes or re-encodes.

The rule. Providers print base URLs with a version part, without one, or with something else in its
place (deployments, a gateway's own path); clients are pointed at us with and without `/v1`. So:

1. A leading `/v1` of the client's path is the client's way of saying "the API", not a place: it is taken off.
2. A base with a path is trusted as it is: `base + rest`. A client that spells the base's path itself is not
   given it twice.
3. A base without a path means the usual one: API paths go to `/v1`, anything else to where it points.
   A trailing `#` says that such a base is meant exactly (a provider that has no version part at all).
4. Parameters in the base (`?api-version=...`) are added unless the client sends its own; the client's raw
   query is never changed.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, unquote, urlsplit

from proxy.errors import ConfigError

API_ROOTS = frozenset(
    (
        "assistants",
        "audio",
        "batches",
        "chat",
        "chatkit",
        "completions",
        "containers",
        "conversations",
        "embeddings",
        "evals",
        "files",
        "fine_tuning",
        "images",
        "models",
        "moderations",
        "organization",
        "realtime",
        "rerank",
        "responses",
        "skills",
        "threads",
        "tokenize",
        "uploads",
        "vector_stores",
        "videos",
    )
)
"""First path parts that belong under `/v1` when the base names no path."""

_ENDPOINT = re.compile(r"/(chat/completions|completions|responses|embeddings|models)/?$")
_LEADING_SLASHES = re.compile(r"^/*")
_CLIENT_VERSION = re.compile(r"^/v1(?=/|$)/*")


def split_scope(path: str) -> tuple[str, str]:
    """Take an explicit conversation prefix off: `/s/<name>/v1/...` gives `(name, "/v1/...")`, else `("", path)`."""
    if not path.startswith("/s/"):
        return "", path
    name, slash, rest = path[3:].partition("/")
    if not name:
        return "", path
    return unquote(name), slash + rest if slash else "/"


def join_upstream(base: str, request_path: str, raw_query: str) -> str:
    """The URL for a request. `request_path` and `raw_query` are as they stood in the request line."""
    is_exact = base.endswith("#")
    parts = urlsplit(base.removesuffix("#"))
    path = _join_path(parts.path.rstrip("/"), request_path, is_exact=is_exact)
    query = _join_query(parts.query, raw_query)
    return f"{parts.scheme}://{parts.netloc}{path}{'?' if query else ''}{query}"


def _join_path(base: str, request_path: str, *, is_exact: bool) -> str:
    path = _LEADING_SLASHES.sub("/", request_path, count=1)
    if base and (path == base or path.startswith(f"{base}/")):
        rest = path[len(base) :]
    else:
        rest = _CLIENT_VERSION.sub("/", path, count=1)
        if not base and not is_exact and (rest != path or _is_api_path(rest)):
            base = "/v1"
    rest = _LEADING_SLASHES.sub("/", rest, count=1)
    if base and rest == "/":
        return base
    return base + rest


def _is_api_path(path: str) -> bool:
    return path[1:].partition("/")[0] in API_ROOTS


def _join_query(base: str, raw_query: str) -> str:
    if not base:
        return raw_query
    sent = {_key(part) for part in raw_query.split("&")}
    added = [part for part in base.split("&") if part and _key(part) not in sent]
    return "&".join([*added, raw_query] if raw_query else added)


def _key(part: str) -> str:
    return unquote(part.partition("=")[0])


def check_base(base: str, *, setting: str = "upstream.url") -> None:
    """Raise `ConfigError` for a base that cannot lead anywhere. Never repeats credentials."""
    if "@" in base.partition("?")[0]:
        raise ConfigError(
            f"{setting} holds credentials",
            hint="Take the part before @ out of the URL, and name the key's environment variable in upstream.key_env.",
        )
    if re.search(r"[\s\x00-\x1f\x7f]", base):
        raise _refusal(setting, base, "holds a space or a control character", "Remove it.")
    try:
        parts = urlsplit(base.removesuffix("#"))
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise _refusal(setting, base, f"is no URL ({error})", "Write it like https://api.openai.com/v1.") from error
    _check_parts(setting, base, parts, has_host=has_host)


def _check_parts(setting: str, base: str, parts: SplitResult, *, has_host: bool) -> None:
    if "://" not in base:
        scheme = "http" if re.match(r"(localhost|127\.|\[::1\])", base) else "https"
        raise _refusal(setting, base, "names no scheme", f"Write {scheme}://{base.lstrip('/').partition('?')[0]}.")
    if parts.scheme not in ("http", "https"):
        raise _refusal(setting, base, f"has the scheme {parts.scheme!r}", "Only http and https can be reached.")
    if not has_host:
        raise _refusal(setting, base, "names no host", "Write it like https://api.openai.com/v1.")
    if parts.fragment:
        raise _refusal(setting, base, "holds a fragment", "Remove what follows #.")
    if _ENDPOINT.search(parts.path):
        root = _ENDPOINT.sub("", parts.path)
        raise _refusal(
            setting, base, "is an endpoint, not a base", f"Write {parts.scheme}://{parts.netloc}{root} instead."
        )


def _refusal(setting: str, base: str, why: str, hint: str) -> ConfigError:
    shown = base.partition("?")[0]  # a query may hold a key
    return ConfigError(f"{setting} = {shown!r} {why}", hint=hint)
