"""What is kept over the rounds of one Chat Completions reply: the client's one message, under one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proxy.core.canonical import printable
from proxy.core.model import Element, Reply
from proxy.wire import jsonbytes
from proxy.wire.base import HiddenCall, Round
from proxy.wire.deltas import DeltaMessage
from proxy.wire.expand_usage import Earlier

CUT = frozenset({"length", "content_filter", "error"})
"""Reasons to end that leave a call unfinished: it is not answered, the reply ends here."""

ENVELOPE = ("id", "created", "model", "system_fingerprint")


class ChatRounds:
    """What both readers keep over the rounds of one reply."""

    def __init__(self, name: str, read_element: Callable[[bytes], Element]) -> None:
        self.name = name
        self.read_element = read_element
        self.number = 1
        self.earlier = Earlier()
        self.envelope: dict[str, Any] = {}
        self.response_id = ""
        self._shown = DeltaMessage()  # what the client has of earlier rounds
        self._has_shown = False

    def end(self, visible: dict[str, Any], reply: Reply) -> None:
        """A round is over and another one follows."""
        self.number += 1
        self.earlier.add(reply.usage)
        self.response_id = self.response_id or reply.response_id
        self._shown.add(visible)
        self._has_shown = self._has_shown or says_anything(visible)

    def merged(self, visible: dict[str, Any]) -> dict[str, Any]:
        """The client's message: all rounds' words in one. Called once, at the end."""
        message = DeltaMessage()
        if self.number > 1:
            message.add(self._shown.build())
        message.add(visible)
        merged = message.build()
        if merged.get("content") is None and not merged.get("tool_calls"):
            merged["content"] = ""  # a message without calls must have words, were it none
        return merged

    def reply(self, visible: dict[str, Any], last: Reply) -> Reply:
        message = self.merged(visible)
        content = message.get("content")
        has_content = says_anything(message)
        return Reply(
            elements=(self.read_element(jsonbytes.dumps(message)),) if has_content else (),
            text=printable(content) if isinstance(content, str) else "",
            finish=last.finish,
            usage=last.usage,
            response_id=self.response_id or last.response_id,
            is_complete=last.is_complete,
            error=last.error,
        )

    def as_first(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document of a later round under the first one's names, with all output so far."""
        if self.number == 1:
            return document
        renamed = {key: self.envelope.get(key, value) for key, value in document.items() if key in ENVELOPE}
        return self.earlier.into({**document, **renamed})

    def round(self, message: dict[str, Any], is_hidden: list[bool]) -> Round:
        """The round's message as it was, its hidden calls complete enough to be sent back."""
        calls = list(message.get("tool_calls") or ())
        hidden: list[HiddenCall] = []
        before: list[str] = []
        for place, (call, hides) in enumerate(zip(calls, is_hidden, strict=True)):
            if not hides:
                before.append(str(call.get("id", "")))
                continue
            function = call["function"]
            arguments = function.get("arguments")
            if not isinstance(arguments, str):
                arguments = jsonbytes.canonical_value(arguments) if arguments else ""
            call_id = call.get("id") or f"call_{self.number}_{place}"
            sane = arguments if _is_object(arguments) else "{}"  # templates parse it, and fail on anything else
            calls[place] = {**call, "id": call_id, "function": {**function, "arguments": sane}}
            hidden.append(HiddenCall(call_id, arguments, tuple(before)))
        if not (hidden or self.number > 1) or not says_anything(message):
            return Round()
        element = self.read_element(jsonbytes.dumps({**message, "tool_calls": calls} if calls else message))
        return Round((element,), (not (hidden or self._has_shown),), tuple(hidden))


def says_anything(message: dict[str, Any]) -> bool:
    """Has this message anything but a role?"""
    return any(value for key, value in message.items() if key != "role")


def _is_object(text: str) -> bool:
    try:
        return isinstance(jsonbytes.loads(text), dict)
    except ValueError:
        return False


def without(message: dict[str, Any], is_hidden: list[bool]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    if not calls:
        return message
    kept = [call for call, hides in zip(calls, is_hidden, strict=True) if not hides]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": kept} if kept else rest
