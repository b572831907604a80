"""The usage that a client gets for a reply of several upstream calls: all output, and the last call's input."""

from __future__ import annotations

from typing import Any

from proxy.core.model import Usage

_OUTPUT = ("completion_tokens", "output_tokens")
_INPUT = ("prompt_tokens", "input_tokens")
_DETAILS = ("completion_tokens_details", "output_tokens_details")


def with_earlier(document: dict[str, Any], output: int, reasoning: int) -> dict[str, Any]:
    """The document with the output of earlier calls added wherever it reports usage."""
    if not output:
        return document
    changed = dict(document)
    if isinstance(document.get("usage"), dict):
        changed["usage"] = _sum(document["usage"], output, reasoning)
    for key in ("x_groq", "response"):
        if isinstance(document.get(key), dict):
            changed[key] = with_earlier(document[key], output, reasoning)
    choices = document.get("choices")
    if isinstance(choices, list):
        changed["choices"] = [with_earlier(c, output, reasoning) if isinstance(c, dict) else c for c in choices]
    return changed


def _sum(usage: dict[str, Any], output: int, reasoning: int) -> dict[str, Any]:
    usage = dict(usage)
    for key in _OUTPUT:
        if isinstance(usage.get(key), int):
            usage[key] += output
    total, given = usage.get("total_tokens"), next((usage[key] for key in _INPUT if key in usage), None)
    if isinstance(total, int) and isinstance(given, int):
        usage["total_tokens"] = total + output
    for key in _DETAILS:
        details = usage.get(key)
        if isinstance(details, dict) and isinstance(details.get("reasoning_tokens"), int):
            usage[key] = {**details, "reasoning_tokens": details["reasoning_tokens"] + reasoning}
    return usage


class Earlier:
    """Output of the rounds before this one."""

    def __init__(self) -> None:
        self.output = 0
        self.reasoning = 0

    def add(self, usage: Usage | None) -> None:
        """Another round is over."""
        if usage is not None:
            self.output += usage.output
            self.reasoning += usage.reasoning

    def into(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document as the client gets it."""
        return with_earlier(document, self.output, self.reasoning)
