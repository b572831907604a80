"""What headers and body say about identity. A scope or a label, never an identity; reads, never decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.core.canonical import printable
from proxy.core.model import Hints
from proxy.wire import jsonbytes
from proxy.wire.frame import Fields

_MAX_ID = 256
"""Longer values are no ids."""

_SCOPE_HEADERS = (
    ("thread-id", "thread"),
    ("x-session-id", "session"),
    ("x-session-affinity", "session"),
    ("goose-session-id", "goose"),
    ("agent-session-id", "goose"),
    ("x-litellm-session-id", "litellm"),
    ("x-openwebui-chat-id", "openwebui"),
    ("x-claude-code-session-id", "claude-code"),
)
_SESSION_HEADERS = ("session-id", "session_id", "conversation-id", "conversation_id")
_PARENT_HEADERS = (("x-codex-parent-thread-id", "thread"), ("x-parent-session-id", "session"))
_CACHE_KEYS = ("prompt_cache_key", "safety_identifier", "user")


def read_hints(headers: Mapping[str, str], fields: Fields, *, is_opaque: bool = False, previous: str = "") -> Hints:
    """Headers by lower-case name. `/s/<name>/` scopes are the caller's business."""
    turn = _turn_metadata(headers)
    parent = _scoped(headers, _PARENT_HEADERS) or _kind("thread", turn.get("parent_thread_id"))
    scope = _scoped(headers, _SCOPE_HEADERS) or _kind("thread", turn.get("thread_id"))
    if not scope:
        scope = _scoped(headers, [(name, "session") for name in _SESSION_HEADERS])
    return Hints(
        forced=_id(headers.get("x-ctx-conversation")),
        scope=scope,
        parent_scope="" if parent == scope else parent,
        label=_label(headers, turn, has_parent=bool(parent) and parent != scope),
        cache_key=next((key for name in _CACHE_KEYS if (key := _id(fields.text(name)))), ""),
        retry_count=_count(headers.get("x-stainless-retry-count", "")),
        previous_response=previous,
        is_opaque=is_opaque,
    )


def _turn_metadata(headers: Mapping[str, str]) -> dict[str, Any]:
    raw = headers.get("x-codex-turn-metadata")
    if not raw:
        return {}
    try:
        value = jsonbytes.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _label(headers: Mapping[str, str], turn: dict[str, Any], *, has_parent: bool) -> str:
    subagent = headers.get("x-openai-subagent", "")
    request_kind = turn.get("request_kind")
    if subagent == "compact" or request_kind == "compaction":
        return "compaction"
    if subagent or has_parent:
        return "subagent"
    if isinstance(request_kind, str) and request_kind not in ("", "turn"):
        return _id(request_kind)
    return ""


def _scoped(headers: Mapping[str, str], names: Any) -> str:
    for name, kind in names:
        found = _kind(kind, headers.get(name))
        if found:
            return found
    return ""


def _kind(kind: str, value: object) -> str:
    name = _id(value)
    return f"{kind}:{name}" if name else ""


def _id(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_ID:
        return ""
    return printable(value).strip()


def _count(value: str) -> int:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 0
