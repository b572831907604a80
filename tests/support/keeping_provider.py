"""A scripted Responses provider that keeps what it is sent: chains, references, conversations, compactions. Strict."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support import responses_events as events
from tests.support.replies import error_reply, json_reply, stream_reply
from tests.support.strict_responses import NOT_FOUND, Made, responses_fault
from tests.support.upstream import Action, Request

Item = dict[str, Any]
Answer = Callable[[Sequence[Item]], list[Item]]
OVERFLOW = "Your input exceeds the context window of this model. Please adjust your input and try again."


def tokens_of(items: Any) -> int:
    """What it bills: four characters a token."""
    return len(json.dumps(items, ensure_ascii=False)) // 4


@dataclass(eq=False)
class Keeper:
    """Handler of a scripted upstream. `answers` are the outputs of the next replies; without one it says "noted".

    `lists` are the whole lists that its accepted requests came to, `refusals` the texts of its 400s.
    """

    answers: list[list[Item]] = field(default_factory=list)
    window: int = 1_000_000
    seals: bool = True
    refuses: str = ""  # a field that it does not take
    lists: list[list[Item]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    made: Made = field(default_factory=Made)
    count: int = 0
    _kept: dict[str, list[Item]] = field(default_factory=dict)
    _items: dict[str, Item] = field(default_factory=dict)

    def __call__(self, request: Request) -> Action:
        if request.path.endswith("/responses/compact"):
            return self._compact(request.json())
        if request.path.endswith("/responses/input_tokens"):
            items, _ = self._whole(request.json())
            return json_reply({"object": "response.input_tokens", "input_tokens": tokens_of(items)})
        return self._respond(request.json())

    def _respond(self, body: dict[str, Any]) -> Action:
        if self.refuses and self.refuses in body:
            return self._refuse(f"Unknown parameter: '{self.refuses}'.")
        items, fault = self._whole(body)
        fault = fault or responses_fault(items, self.made)
        if fault:
            return self._refuse(fault)
        tokens = tokens_of(items)
        if tokens > self.window:
            self.refusals.append(OVERFLOW)
            if body.get("stream"):
                return stream_reply(events.failed_events("resp_failed", "context_length_exceeded", OVERFLOW))
            return error_reply(400, OVERFLOW, param="input", code="context_length_exceeded")
        output = self._answer(items)
        self.count += 1
        name = f"resp_{self.count:04d}9f3ac27b"
        self.lists.append(items)
        self.made.add(output)
        if body.get("store") is not False:
            self._kept[name] = [*items, *output]
            self._items |= {item["id"]: item for item in output if item.get("id")}
        if body.get("conversation"):
            self._kept[_id_of(body["conversation"])] = [*items, *output]
        fields: dict[str, Any] = {"background": True} if body.get("background") else {}
        fields["previous_response_id"] = body.get("previous_response_id")
        whole = events.response(name, output, events.usage(tokens, 10), **fields)
        if body.get("background"):
            return json_reply({**whole, "status": "queued", "output": [], "usage": None})
        return stream_reply(events.reply_events(whole)) if body.get("stream") else json_reply(whole)

    def _whole(self, body: dict[str, Any]) -> tuple[list[Item], str]:
        """What stands behind the request and what is in it, each reference read."""
        own = body["input"]
        own = [{"role": "user", "content": own}] if isinstance(own, str) else own
        behind: list[Item] = []
        if previous := body.get("previous_response_id"):
            if previous not in self._kept:
                return [], f"Previous response with id '{previous}' not found."
            behind = self._kept[previous]
        elif conversation := body.get("conversation"):
            behind = self._kept.get(_id_of(conversation), [])
        items = [*behind]
        for item in own:
            if item.get("type") == "item_reference" or ("type" not in item and "role" not in item):
                if item["id"] not in self._items:
                    return [], NOT_FOUND.format(item["id"])
                item = self._items[item["id"]]
            items.append(item)
        return items, ""

    def _answer(self, items: Sequence[Item]) -> list[Item]:
        if items and items[-1].get("type") == "compaction_trigger":
            return [self.compaction(items[:-1])]
        if self.answers:
            return self.answers.pop(0)
        return self.said("noted, as it was asked")

    def said(self, text: str) -> list[Item]:
        """Reasoning and a message, as it would say it now."""
        place = self.count + 1
        return [self.thought(place), events.message_item(f"msg_{place:04d}c41fe2", f"{text} ({place})")]

    def called(self, call_id: str, **arguments: Any) -> list[Item]:
        """Reasoning and a call."""
        place = self.count + len(self.answers) + 101
        return [
            self.thought(place),
            events.call_item(f"fc_{place:04d}c41fe2", call_id, "look", json.dumps(arguments)),
        ]

    def thought(self, place: int) -> Item:
        return events.reasoning_item(f"rs_{place:04d}c41fe2", f"gAAAA{place:04d}" * 12 if self.seals else None)

    def compaction(self, items: Sequence[Item]) -> Item:
        """What it makes of a list: nobody else can read it."""
        sealed = f"gAAAAsealed{len(items)}x{tokens_of(list(items))}Qz7" * 8
        return {"type": "compaction", "id": f"cmp_{self.count + 1:04d}c41fe2", "encrypted_content": sealed}

    def _compact(self, body: dict[str, Any]) -> Action:
        items, fault = self._whole(body)
        fault = fault or responses_fault(items, self.made)
        if fault:
            return self._refuse(fault)
        kept = [item for item in items if item.get("role") == "user"]
        output = [*kept, self.compaction(items)]
        return json_reply(
            {
                "id": "cmpr_1",
                "object": "response.compaction",
                "output": output,
                "usage": events.usage(tokens_of(items), 40),
            }
        )

    def _refuse(self, text: str) -> Action:
        self.refusals.append(text)
        return error_reply(400, text, param="input")


def _id_of(conversation: Any) -> str:
    return str(conversation["id"] if isinstance(conversation, dict) else conversation)
