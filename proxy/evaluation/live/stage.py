"""Stands where the provider stands: plays what the story has for granted, and lets a real model do what is checked.

It is strict and counts as the scripted provider does, so that a budget means the same for every model. What the real
one billed is kept beside it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.core.model import Usage
from proxy.demo.pairing import Refusal
from proxy.demo.provider import Answer, Provider, ScriptedCall
from proxy.errors import UndercliffError
from proxy.evaluation.live.briefing import Part
from proxy.evaluation.live.endpoint import Endpoint, Said
from proxy.evaluation.live.purse import CostReachedError, Purse
from proxy.evaluation.results import CallBill
from proxy.evaluation.scripted.reader import TOOL, Messages, Seen, is_in_sight, read
from proxy.evaluation.scripted.spec import Move, Need

MOST_CALLS = 24
"""Requests to the model in one part, fetches included."""
GAVE_UP = "I give up."
SILENT = "(nothing)"
PAYMENT = 402
WANTED_BACK = ("reasoning_content", "reasoning_details")
"""Beside `extra_content` in a call (signed thoughts): without them some providers refuse the next request."""


def unscripted(messages: Messages) -> Answer:
    """A stage has no script but its parts."""
    raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class Stage(Provider):
    """A provider for one run. `seen`, `fetching`: as a scripted model's. `real` are the model's own bills by request.

    `trouble` is why the run could not be played to its end through no fault of the model's.
    """

    parts: Sequence[Part]
    endpoint: Endpoint
    purse: Purse
    seen: list[Seen] = field(default_factory=list)
    fetching: list[bool] = field(default_factory=list)
    real: dict[int, CallBill] = field(default_factory=dict)
    trouble: UndercliffError | None = None
    _part: int = 0
    _place: int = 0  # in the part's played moves
    _asked: int = 0  # of the model, in this part
    _seeing: list[Seen] = field(default_factory=list)
    _said: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # the model's messages, by their calls
    _calls: int = 0

    async def answer(self, request: dict[str, Any], tokens: int) -> Answer | Refusal:
        part = self.parts[min(self._part, len(self.parts) - 1)]
        if self._place < len(part.played):
            return self._keep(self._played(part.played[self._place]))
        if self._part >= len(self.parts) or not part.checked:
            self._next_part()
            return self._keep(Answer("Done."))
        return await self._live(part, request, tokens)

    # -- what the story has ------------------------------------------------------------------------
    def _played(self, move: Move) -> Answer:
        self._place += 1
        if move.told:
            self._next_part()
            return Answer(move.right)
        return Answer("", tuple(self._made(call.tool, dict(call.arguments)) for call in move.calls))

    def _made(self, tool: str, arguments: dict[str, str]) -> ScriptedCall:
        self._calls += 1
        return ScriptedCall(f"call_{self._calls:06}", tool, json.dumps(arguments))

    def _next_part(self) -> None:
        self._part, self._place, self._asked, self._seeing = self._part + 1, 0, 0, []

    def _keep(self, answer: Answer, *, is_fetch: bool = False) -> Answer:
        self.fetching.append(is_fetch)
        return answer

    # -- what the model does -----------------------------------------------------------------------
    async def _live(self, part: Part, request: dict[str, Any], tokens: int) -> Answer | Refusal:
        messages = request["messages"]
        if not self._asked:
            self._seeing = [look(move, messages, len(self.fetching)) for move in part.checked]
        if self._asked >= MOST_CALLS:
            self._finish(messages)
            return self._keep(Answer(GAVE_UP))
        found = await self._pay(request, tokens)
        if isinstance(found, Refusal):
            return found
        self._asked += 1
        answer, usage = found.answer, found.usage
        self._said |= {call.id: found.message for call in answer.calls}
        is_fetch = _is_offered(request) and any(call.name == TOOL for call in answer.calls)
        if usage is not None:
            self.real[len(self.fetching)] = CallBill(usage.input, usage.cached, usage.output, is_fetch)
        if is_fetch:
            for seen in self._seeing:
                seen.is_followable = True
        if not answer.calls:
            self._finish(messages)
            answer = Answer(answer.text or SILENT)
        return self._keep(answer, is_fetch=is_fetch)

    async def _pay(self, request: dict[str, Any], tokens: int) -> Said | Refusal:
        try:
            with self.purse.paying(tokens, self.endpoint.most_output) as bills:
                messages = restored(request["messages"], self._said)
                found = await asyncio.to_thread(self.endpoint.ask, messages, request.get("tools") or ())
                if not isinstance(found, Refusal):
                    guess = Usage(tokens, self.count(json.dumps(found.message)), is_estimated=True)
                    bills.append(found.usage or guess)
        except CostReachedError as error:
            self.trouble = error
            return Refusal(str(error), code="cost_limit", status=PAYMENT)
        if isinstance(found, Refusal) and not _is_too_long(found):
            self.trouble = UndercliffError(
                f"{self.endpoint.url} refused {self.endpoint.model}: {found.status}: {found.message[:300]}",
                hint="Check the address, the model's name and the key; what was done before is kept.",
            )
        return found

    def _finish(self, messages: Messages) -> None:
        """What was still out of sight when the model said its last word."""
        for seen in self._seeing:
            seen.unmet_expanded = unmet(seen.move, messages)
            seen.has_rule = seen.has_rule or _has_rule(seen.move, messages)
        self.seen += self._seeing
        self._next_part()


def look(move: Move, messages: Messages, at: int) -> Seen:
    """What the window says of a move before the model is asked for the first time."""
    out = unmet(move, messages)
    return Seen(move, at, out, out, _has_rule(move, messages))


def unmet(move: Move, messages: Messages) -> tuple[Need, ...]:
    return tuple(need for need in move.needs if read(need, messages) != need.value)


def restored(messages: Messages, said: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The list with what some providers want back beside a call. Not with all they said: others refuse to read it."""
    found = []
    for message in messages:
        calls = message.get("tool_calls") or ()
        whole = said.get(calls[0]["id"]) if calls else None
        if whole is not None:
            known = {call["id"]: _only(call, "extra_content") for call in whole["tool_calls"]}
            own = [{**known.get(call["id"], {}), **call} for call in calls]
            message = {**_only(whole, *WANTED_BACK), **message, "tool_calls": own}
        found.append(message)
    return found


def _only(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value[name] for name in names if name in value}


def _has_rule(move: Move, messages: Messages) -> bool:
    return not move.rule or is_in_sight(move.rule, messages)


def _is_offered(request: Mapping[str, Any]) -> bool:
    return any(tool.get("function", {}).get("name") == TOOL for tool in request.get("tools") or ())


def _is_too_long(refusal: Refusal) -> bool:
    """The proxy deals with these: the model's own window is smaller than the budget."""
    return refusal.code == "context_length_exceeded" or "context length" in refusal.message
