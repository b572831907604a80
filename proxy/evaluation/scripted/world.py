"""The side of the tools and of the user: answers calls from the story, and says at the end what was done right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.evaluation.results import Check
from proxy.evaluation.scripted.spec import Call, Move, Story

Message = dict[str, Any]


@dataclass(slots=True)
class World:
    """What is called is looked up by tool and arguments; whoever calls, in whatever order, gets the same."""

    story: Story
    made: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, tool: str, arguments: str) -> str:
        """The result of a call, an error for one that nothing answers."""
        try:
            given = {str(k): str(v) for k, v in json.loads(arguments or "{}").items() if v not in (None, "")}
        except (ValueError, AttributeError):
            return "error: the arguments are no JSON object"
        self.made.append((tool, given))
        if tool not in self.story.tools:
            return f"error: there is no tool {tool}"
        for move in self.story.moves:
            for call in move.calls:
                if call.tool == tool and dict(call.arguments) == given:
                    return call.result
        if any(call.tool == tool and move.is_checked for move in self.story.moves for call in move.calls):
            return "recorded"  # it does as it is told: a wrong one is found out at the end
        return "nothing found"

    def done(self, move: Move) -> bool:
        """Whether a checked move was made as it must be, and nothing forbidden instead."""
        if move.told:
            return any(all(need.value in text for need in move.needs) for text in self.said)
        made = all((call.tool, dict(call.arguments)) in self.made for call in move.calls)
        forbidden = move.otherwise
        return made and (forbidden is None or (forbidden.tool, dict(forbidden.arguments)) not in self.made)

    def checks(self) -> tuple[Check, ...]:
        """Every checked move, by what was done."""
        found = []
        for number, move in enumerate(move for move in self.story.moves if move.is_checked):
            is_done = self.done(move)
            found.append(Check(f"{number + 1}. {title(move)}", is_done, is_done))
        return tuple(found)

    def tools(self) -> list[dict[str, Any]]:
        """The tools as a client offers them."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool,
                    "description": f"{tool.replace('_', ' ').capitalize()}.",
                    "parameters": {
                        "type": "object",
                        "properties": {name: {"type": "string"} for name in names},
                        "required": [name for name in names if self._is_always_given(tool, name)],
                    },
                },
            }
            for tool, names in sorted(self.story.tools.items())
        ]

    def _is_always_given(self, tool: str, name: str) -> bool:
        calls = [call for move in self.story.moves for call in move.calls if call.tool == tool]
        return all(name in call.arguments for call in calls)


def title(move: Move) -> str:
    if move.told:
        return f"say: {move.right[:70]}"
    call: Call = move.calls[0]
    rest = " ".join(f"{key}={value}" for key, value in call.arguments.items())
    return f"{call.tool} {rest}"[:80] + (f" (heeding: {move.rule[:40]})" if move.rule else "")


def whole(story: Story) -> list[list[Message]]:
    """The list as a client has it at each of the model's requests, if all goes right: what a direct run would send."""
    messages: list[Message] = [{"role": "system", "content": story.system}]
    lists: list[list[Message]] = []
    number = 0
    for place, move in enumerate(story.moves):
        if move.said:
            messages.append({"role": "user", "content": move.said})
            continue
        lists.append(list(messages))
        if move.told:
            messages.append({"role": "assistant", "content": move.right})
            continue
        calls = []
        for call in move.calls:
            number += 1
            function = {"name": call.tool, "arguments": json.dumps(dict(call.arguments))}
            calls.append({"id": f"call_{number:06}", "type": "function", "function": function})
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for made, call in zip(calls, move.calls, strict=True):
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": call.result})
        if place + 1 == len(story.moves) or story.moves[place + 1].said:
            lists.append(list(messages))
            messages.append({"role": "assistant", "content": "Done."})
    return lists


def where(text: str, messages: Sequence[Mapping[str, Any]]) -> int:
    """The last message that has the text; -1 for none."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        calls = " ".join(call["function"]["arguments"] for call in message.get("tool_calls") or ())
        if text in f"{message.get('content') or ''} {calls}":
            return place
    return -1
