"""The policy's word for an element. Pure."""

from __future__ import annotations

from policies.model import Kind
from proxy.core.model import Element

SYSTEM_ROLES = frozenset({"system", "developer", "mcp_list_tools", "additional_tools", "configuration_update"})
"""Instructions, and items that say what may be called: what comes later is not valid without them."""


def kind_of(element: Element) -> Kind:
    """The policy's word for an element."""
    if element.kind == "tool_result":
        return "tool_result"
    if element.kind == "reasoning":
        return "reasoning"
    if element.role in SYSTEM_ROLES:
        return "system"
    if element.role == "user" and element.kind in ("message", "summary"):
        return "user"
    if element.role == "assistant" or element.kind == "tool_call":
        return "assistant"
    return "opaque"
