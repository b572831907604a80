"""The scripted model: follows the story, and knows of its facts only what the window says, or what it fetches.

A value that the window does not say is looked for behind stubs: an item whose line shares a rare word with it is
fetched with the proxy's tool, at most twice a move. What cannot be found is made up, and the check fails.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.demo.provider import Answer, ScriptedCall
from proxy.evaluation.scripted.material import PLACEHOLDER
from proxy.evaluation.scripted.spec import Call, Move, Need, Story, words

TOOL = "ctx_expand"
UNKNOWN = "unknown"
MOST_FETCHES = 2
_ID = re.compile(r"\b[a-z2-7]{12}\b")
_RARE = 3  # a word in more stubs than that says nothing of where to look

Messages = Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Seen:
    """How a checked move went. `at` is the number of the model's request, counted from 0."""

    move: Move
    at: int
    unmet: tuple[Need, ...] = ()
    unmet_expanded: tuple[Need, ...] = ()
    has_rule: bool = True
    is_followable: bool = False


@dataclass(slots=True)
class Reader:
    """A provider's script for one run. `fetching` says of each request whether it was answered with a fetch."""

    story: Story
    seen: list[Seen] = field(default_factory=list)
    fetching: list[bool] = field(default_factory=list)
    _place: int = 0
    _fetched: list[str] = field(default_factory=list)
    _first: tuple[Need, ...] | None = None  # what the window alone did not say at this move
    _calls: int = 0

    def __call__(self, messages: Messages) -> Answer:
        self._pass_what_is_said()
        move = self._move()
        if move is None:
            return self._say("Done.")
        unmet = tuple(need for need in move.needs if read(need, messages) is None)
        if self._first is None:
            self._first = tuple(need for need in move.needs if read(need, messages) != need.value)
        if unmet and (item := self._item(unmet, move, messages)):
            return self._fetch(item)
        self._note(move, messages)
        self._place += 1
        self._first, self._fetched = None, []
        if move.told:
            return self._say(filled(move.told, move.needs, messages))
        calls = move.calls
        if move.rule and not is_in_sight(move.rule, messages) and move.otherwise is not None:
            calls = (move.otherwise,)
        return Answer("", tuple(self._made(call, move, messages) for call in calls))

    # -- the story --------------------------------------------------------------------------------
    def _move(self) -> Move | None:
        return self.story.moves[self._place] if self._place < len(self.story.moves) else None

    def _pass_what_is_said(self) -> None:
        while (move := self._move()) is not None and move.said:
            self._place += 1

    def _say(self, text: str) -> Answer:
        self.fetching.append(False)
        return Answer(text)

    def _made(self, call: Call, move: Move, messages: Messages) -> ScriptedCall:
        if not self.fetching or call is move.calls[0] or call is move.otherwise:
            self.fetching.append(False)
        self._calls += 1
        arguments = dict(call.arguments)
        if move.needs and call is not move.otherwise:  # what is done otherwise is wrong with the right values too
            arguments = {key: filled(value, move.needs, messages) for key, value in call.template.items()}
        return ScriptedCall(f"call_{self._calls:06}", call.tool, json.dumps(arguments))

    def _note(self, move: Move, messages: Messages) -> None:
        if not move.is_checked:
            return
        still = tuple(need for need in move.needs if read(need, messages) != need.value)
        has_rule = not move.rule or is_in_sight(move.rule, messages)
        self.seen.append(Seen(move, len(self.fetching), self._first or (), still, has_rule, bool(self._fetched)))

    # -- what is left out -------------------------------------------------------------------------
    def _item(self, unmet: Sequence[Need], move: Move, messages: Messages) -> str:
        if len(self._fetched) >= MOST_FETCHES:
            return ""
        wanted = {word for need in unmet for word in need.words} | words(_asked(messages))
        candidates = [(item, line) for item, line in stubs(messages) if item not in self._fetched]
        common = Counter(word for _, line in candidates for word in words(line) & wanted)
        rare = {word for word, count in common.items() if count <= _RARE}
        scored = [
            (sum(1 / common[word] for word in words(line) & rare), n, item) for n, (item, line) in enumerate(candidates)
        ]
        best = max(scored, default=(0.0, 0, ""))
        return best[2] if best[0] > 0 else ""

    def _fetch(self, item: str) -> Answer:
        self._fetched.append(item)
        self.fetching.append(True)
        self._calls += 1
        return Answer("", (ScriptedCall(f"call_{self._calls:06}", TOOL, json.dumps({"id": item})),))


def texts(messages: Messages) -> Iterator[str]:
    """All that can be read: contents, and the arguments of calls."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield content
        for call in message.get("tool_calls") or ():
            yield str(call["function"]["arguments"])


def read(need: Need, messages: Messages) -> str | None:
    """What the window says the value is: the newest place where one of its sentences stands."""
    for text in reversed(list(texts(messages))):
        found = [match for pattern in need.patterns for match in re.finditer(pattern, text)]
        if found:
            return max(found, key=lambda match: match.start())[1]
    return None


def filled(template: str, needs: Sequence[Need], messages: Messages) -> str:
    known = {need.name: read(need, messages) or UNKNOWN for need in needs}
    return PLACEHOLDER.sub(lambda found: known[found[2]], template)


def is_in_sight(rule: str, messages: Messages) -> bool:
    return any(rule in text for text in texts(messages))


def stubs(messages: Messages) -> list[tuple[str, str]]:
    """(id, the line that names it) of every item that the window names, once each, newest last."""
    found: dict[str, str] = {}
    for text in texts(messages):
        for line in text.splitlines():
            for item in _ID.findall(line):
                found[item] = line
    return list(found.items())


def _asked(messages: Messages) -> str:
    return next((str(m.get("content") or "") for m in reversed(messages) if m.get("role") == "user"), "")
