"""Asks a real model over Chat Completions: one call, a few patient repeats, and the provider's words if it refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from proxy.config.loading import is_loopback
from proxy.core.model import Usage
from proxy.core.usage import total
from proxy.demo.pairing import Refusal
from proxy.demo.provider import Answer, ScriptedCall
from proxy.wire.usage import read_usage

PAUSES_S = (1.0, 5.0, 20.0)
"""Before a call is made again that was turned away for now."""
FOR_NOW = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
LENGTH_FIELDS = ("max_tokens", "max_completion_tokens")
UNREACHED = 503
SLOW = "timeout"
"""Code of what took too long: the proxy in front would not wait for it once more."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer, its bill, and the message with whatever else the provider put into it."""

    answer: Answer
    usage: Usage | None
    message: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model. `settings` go into each request as they are; `name_of_length` is how the provider calls its limit."""

    url: str
    model: str
    key: str = field(default="", repr=False)
    most_output: int = 2048
    settings: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 600.0
    sleep: Callable[[float], object] = field(default=time.sleep, repr=False, compare=False)

    def ask(self, messages: Sequence[Any], tools: Sequence[Any]) -> Said | Refusal:
        """What the model says and what it was billed, or how it was refused."""
        refusal = Refusal("not asked", status=UNREACHED)
        pauses = iter(PAUSES_S)
        names = iter(LENGTH_FIELDS)
        name = next(names)
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        is_here = is_loopback(urlsplit(self.url).hostname or "")  # always reached directly, as by the proxy itself
        with httpx.Client(timeout=self.timeout_s, headers=headers, trust_env=not is_here) as http:
            while True:
                body = {"model": self.model, "messages": messages, name: self.most_output, **self.settings}
                found = self._once(http, {**body, "tools": tools} if tools else body)
                if not isinstance(found, Refusal):
                    return found
                refusal = found
                if refusal.status == 400 and name in refusal.message and (other := next(names, None)):
                    name = other  # newer models of one provider know it by another name only
                elif refusal.status in FOR_NOW and refusal.code != SLOW and (pause := next(pauses, None)) is not None:
                    self.sleep(pause)
                else:
                    return refusal

    def _once(self, http: httpx.Client, body: Mapping[str, Any]) -> Said | Refusal:
        try:
            reply = http.post(f"{self.url.rstrip('/')}/chat/completions", json=body)
        except httpx.TimeoutException:
            return Refusal(f"{self.url} said nothing for {self.timeout_s:.0f} s", None, SLOW, UNREACHED)
        except httpx.HTTPError as error:
            return Refusal(f"{type(error).__name__} from {self.url}: {error}", status=UNREACHED)
        if reply.status_code != 200:
            return _refusal(reply)
        try:
            document = reply.json()
            message = document["choices"][0]["message"]
            return Said(_answer(message), total(read_usage(document)), message)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return Refusal(f"{self.url} answered with no completion: {reply.text[:200]}", status=502)


def _answer(message: Mapping[str, Any]) -> Answer:
    calls = tuple(
        ScriptedCall(str(call["id"]), str(call["function"]["name"]), _text(call["function"].get("arguments")))
        for call in message.get("tool_calls") or ()
    )
    return Answer(str(message.get("content") or ""), calls)


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {})


def _refusal(reply: httpx.Response) -> Refusal:
    try:
        error = reply.json()["error"]
        fields = error if isinstance(error, dict) else {"message": str(error)}
    except (ValueError, KeyError, TypeError):
        fields = {"message": reply.text[:300]}
    code = fields.get("code")
    return Refusal(
        str(fields.get("message") or f"status {reply.status_code}"),
        fields.get("param"),
        code if isinstance(code, str) else None,
        reply.status_code,
    )
