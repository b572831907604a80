"""Models that stand in for real ones behind an OpenAI-compatible address: they read the window and the brief."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.demo.provider import Answer, ScriptedCall
from proxy.evaluation.live.briefing import briefed, parts
from proxy.evaluation.live.endpoint import Endpoint
from proxy.evaluation.scripted.reader import TOOL, filled, is_in_sight, read, stubs
from proxy.evaluation.scripted.spec import Move, Story, tell, trades

Messages = Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Model:
    """Does what the brief asks with the values that it can read; fetches what a stub names when it cannot."""

    story: Story
    fetches: bool = True
    asked: list[int] = field(default_factory=list)  # messages of each window

    def __call__(self, messages: Messages) -> Answer:
        self.asked.append(len(messages))
        last, part = max(
            (place, number)
            for number, part in enumerate(parts(briefed(self.story)))
            for place, message in enumerate(messages)
            if message["role"] == "user" and part.said[-1].said in message["content"]
        )
        made = [call for message in messages[last:] for call in message.get("tool_calls") or ()]
        fetched = {json.loads(call["function"]["arguments"])["id"] for call in made if call["function"]["name"] == TOOL}
        checked = parts(self.story)[part].checked
        move = checked[len(made) - len(fetched)] if len(made) - len(fetched) < len(checked) else None
        if move is None:
            return Answer("Done.")
        if self.fetches and len(fetched) < 3 and any(read(need, messages) is None for need in move.needs):
            for item, line in reversed(stubs(messages)):
                if item not in fetched and any(word in line.lower() for need in move.needs for word in need.words):
                    return Answer("", (ScriptedCall(f"f{len(made)}{last}", TOOL, json.dumps({"id": item})),))
        return self.act(move, messages, f"c{len(made)}{last}")

    def act(self, move: Move, messages: Messages, number: str) -> Answer:
        if move.told:
            return Answer(filled(move.told, move.needs, messages))
        call = move.calls[0]
        if move.rule and not is_in_sight(move.rule, messages) and move.otherwise is not None:
            call = move.otherwise
            return Answer("", (ScriptedCall(number, call.tool, json.dumps(dict(call.arguments))),))
        arguments = {key: filled(value, move.needs, messages) for key, value in call.template.items()}
        return Answer("", (ScriptedCall(number, call.tool, json.dumps(arguments)),))


def story(trade: int = 4, plot: int = 0, seed: int = 1) -> Story:
    found = trades()[trade]
    return tell(found["plot"][plot], found, seed)


def endpoint(url: str, **settings: Any) -> Endpoint:
    return Endpoint(f"{url}/v1", "small-model", key="secret", sleep=lambda _: None, **settings)
