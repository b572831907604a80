"""40 turns, ten planted error lines, a provider that asks for each at the end, and a proxy that is killed between.

Prints how many were answered, and the bill of the session with the tool's calls charged to it, against the whole list.

    python -m tests.bench.expand_session
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support import builders, replies
from tests.support.expanding import NAME, expand
from tests.support.serve import served_process
from tests.support.session import ok
from tests.support.strict_lists import chat_fault
from tests.support.upstream import Action, Request, ScriptedUpstream

TURNS, PLANTED, SIZE, WINDOW = 40, 10, 4000, 40_000
EVERY = TURNS // PLANTED
CACHED, WRITE, OUTPUT = 0.1, 1.0, 8.0
_STUB = re.compile(r"\b[a-z2-7]{12}\b(?= look)|(?<=\bid )[a-z2-7]{12}\b")
_LINE = re.compile(r"ERROR \d+: gauge \d+ lost its zero")


def planted(turn: int) -> str:
    return f"ERROR {turn}: gauge {turn * 37} lost its zero"


def output_of(turn: int) -> str:
    """A tool's output; in every fourth one there is an error line in the middle, and no word of it elsewhere."""
    text = builders.long_text(turn, SIZE)
    if turn % EVERY:
        return text
    return f"{text[: SIZE // 2]}\n{planted(turn)}\n{text[SIZE // 2 :]}"


@dataclass(eq=False)
class Asking:
    """The provider: pairs must be right, the cache is by prefix, and what is hidden is asked for when the user asks."""

    asked: int = 0
    refusals: int = 0
    found: set[str] = field(default_factory=set)
    bill: float = 0.0
    rounds: int = 0
    cost_of_rounds: float = 0.0
    _last: bytes = b""
    _hidden: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Action:
        body = request.json()
        messages = body["messages"]
        if chat_fault(messages) is not None:
            self.refusals += 1
            return replies.error_reply(400, "list does not pair up")
        same = 0
        for one, other in zip(self._last, request.body, strict=False):
            if one != other:
                break
            same += 1
        self._last = request.body
        price = (same * CACHED + (len(request.body) - same) * WRITE) / 4
        self.bill += price
        wanted = re.search(r"What was error (\d+)\?", str(messages[-1].get("content")))
        tokens = len(request.body) // 4
        if wanted:
            self._hidden = self._candidates(messages)
            return self._next(tokens)
        if messages[-1].get("tool_call_id", "").startswith("call_fetch"):
            self.rounds += 1
            self.cost_of_rounds += price + 30 * OUTPUT
            line = _LINE.search(messages[-1]["content"])
            question = next(m["content"] for m in reversed(messages) if m["role"] == "user")
            number = question.split()[-1].rstrip("?")
            if "stands for" in messages[-1]["content"]:  # a summary's list of originals: follow it
                lines = messages[-1]["content"].splitlines()
                self._hidden[:0] = [_STUB.findall(each)[0] for each in lines if re.search(rf"\bthing {number}\b", each)]
            if line and line.group().startswith(f"ERROR {number}:"):
                self.bill += 20 * OUTPUT
                return replies.json_reply(replies.completion(f"It was: {line.group()}", prompt=tokens))
            return self._next(tokens)
        self.bill += 10 * OUTPUT
        return replies.json_reply(replies.completion("noted", prompt=tokens))

    def _candidates(self, messages: Sequence[Any]) -> list[str]:
        """Ids that stand in the window, those next to the number that is asked for first."""
        number = str(messages[-1]["content"]).split()[-1].rstrip("?")
        near, digests, rest = [], [], []
        for message in messages:
            text = str(message.get("content") or "")
            for line in text.splitlines():
                for item in _STUB.findall(line):
                    is_near = re.search(rf"\bthing {number}\b", line) is not None
                    (near if is_near else digests if "made by the proxy" in text else rest).append(item)
        return [*dict.fromkeys([*near, *digests, *rest])]

    def _next(self, tokens: int) -> Action:
        if not self._hidden:
            return replies.json_reply(replies.completion("I cannot find it.", prompt=tokens))
        self.asked += 1
        self.bill += 30 * OUTPUT
        call = expand(f"call_fetch{self.asked:05}", id=self._hidden.pop(0), query="ERROR")
        return replies.json_reply(replies.completion(None, calls=[call], prompt=tokens))


def run(*, turns: int = TURNS, window: int = WINDOW, kills: bool = True) -> dict[str, float]:
    """The session; the proxy is killed before every second question."""
    provider = Asking()
    tools = [builders.tool()]
    with TemporaryDirectory() as folder, ScriptedUpstream(provider) as up:
        # Ids follow from it: every run has the same ones.
        (Path(folder) / "undercliff.secret").write_bytes(b"the same in every run, for the same ids"[:32])
        with served_process(up.base_url, Path(folder), models={"scripted-*": {"window": window}}) as proxy:
            messages: list[Any] = [builders.system(), builders.user("watch the gauges")]

            def turn(text: str, *more: Any) -> str:
                messages.extend([builders.user(text), *more])
                reply = ok(proxy, builders.body_bytes(builders.request(messages, tools=tools))).json()
                message = reply["choices"][0]["message"]
                assert NAME not in json.dumps(reply)
                messages.append(message)
                return str(message["content"])

            for number in range(turns):
                turn(f"and hour {number}", *builders.step(number, output_of(number)))
            before = provider.bill
            asked = range(0, turns, EVERY)
            answered = 0
            for place, number in enumerate(asked):
                if kills and place % 2:
                    proxy.restart()
                answered += planted(number) in turn(f"What was error {number}?")
    direct = _direct(messages)
    return {
        "answered": answered,
        "planted": len(asked),
        "refusals": provider.refusals,
        "calls of the tool": provider.asked,
        "bill": provider.bill,
        "of it for the questions": provider.bill - before,
        "of it for the tool": provider.cost_of_rounds,
        "whole list": direct,
        "bill / whole list": provider.bill / direct,
    }


def _direct(messages: Sequence[Any]) -> float:
    """The same talk with everything sent, every prefix cached, and the errors in plain sight."""
    bill, last = 0.0, 0
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and not message.get("tool_calls"):
            size = len(builders.body_bytes(list(messages[:index])))
            bill += (last * CACHED + (size - last) * WRITE) / 4 + 10 * OUTPUT
            last = size
    return bill


if __name__ == "__main__":
    for key, value in run().items():
        print(f"{key:26} {value:12,.2f}")
