"""Random agents and a random provider for tests: every list valid, everything else as odd as clients really are."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.support import builders, replies
from tests.support.strict_lists import chat_fault
from tests.support.upstream import Action, Request

Message = dict[str, Any]
ODD_WORDS = (
    "tide", "mole", "¿qué?", "防波堤", "\U0001f642\U0001f469\u200d\U0001f467", "e\u0301\u0301", "\u202eabc\u202c",
    "\x00\x07\x1b[31m", "\u2028\u2029", "\ufffd", "<|endoftext|>", "\\u0041\\", '"', "\ud83d", "{}[]",
    "data: [DONE]", "Error: boom", "\r\n", "\t", "\ufeff",
)  # fmt: skip
PIXEL = "data:image/png;base64," + "iVBORw0KGgo" * 20


def encode(rng: random.Random, message: Message) -> bytes:
    """As one client or another writes JSON; lone surrogates only as escapes."""
    style = rng.randrange(3)
    text = json.dumps(message, ensure_ascii=style != 1, separators=(",", ":") if style else None)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(message).encode()


@dataclass(slots=True)
class Talk:
    """A list as a client holds it: messages with the bytes that it sends for each."""

    mark: str
    messages: list[Message] = field(default_factory=list)
    raws: list[bytes] = field(default_factory=list)

    def copy(self) -> Talk:
        return Talk(self.mark, deepcopy(self.messages), list(self.raws))

    def cut(self, length: int) -> None:
        del self.messages[length:], self.raws[length:]

    def open_calls(self) -> list[dict[str, Any]]:
        return list(self.messages[-1].get("tool_calls") or ()) if self.messages else []


class RandomAgent:
    """Grows and damages a talk by chance. `marks` in its words tell which talk they belong to."""

    def __init__(self, rng: random.Random, number: int, *, biggest: int = 6000) -> None:
        self.rng = rng
        self.biggest = biggest
        self.ids = 0
        self.reuses_ids = rng.random() < 0.25
        self.talk = Talk(f"zq{number}x{rng.randrange(1 << 32):08x}qz")
        self.kept: list[Talk] = []
        for _ in range(rng.randrange(3)):
            self.add(builders.system(self.words(20), rng.choice(["system", "developer"])))
        self.say()

    # -- words --------------------------------------------------------------------------------------
    def words(self, count: int) -> str:
        picked = self.rng.choices(ODD_WORDS, k=max(1, count))
        return " ".join([self.talk.mark, *picked, f"{self.rng.randrange(1 << 30)}"])

    def output(self) -> str:
        """What a tool says: short, long, JSON, log lines with errors, dense text, nothing at all."""
        size = self.rng.choice([0, 30, 400, 499, 600, 1500, 3000, self.biggest])
        if not size:
            return ""
        kind = self.rng.randrange(5)
        number = self.rng.randrange(1 << 20)
        if kind == 0:
            return self.talk.mark + builders.long_text(number, size)
        if kind == 1:
            rows = [{"id": f"{number}-{row}", "note": self.talk.mark} for row in range(size // 50 + 1)]
            return json.dumps({"rows": rows})
        if kind == 2:
            lines = [
                f"{self.talk.mark} line {row} {'ERROR: no' if row % 17 == 3 else 'fine'}" for row in range(size // 40)
            ]
            return "\n".join(lines)
        if kind == 3:
            return self.talk.mark + "防波堤は無事です🙂" * (size // 12)
        return (self.words(20) + " ") * (size // 120 + 1)

    def content(self, text: str) -> Any:
        """A text, or the same in parts."""
        match self.rng.randrange(5):
            case 0:
                return builders.parts(text)
            case 1:
                return builders.parts(text, self.words(3))
        return text

    # -- building -----------------------------------------------------------------------------------
    def add(self, message: Message) -> None:
        self.talk.messages.append(message)
        self.talk.raws.append(encode(self.rng, message))

    def call_id(self) -> str:
        self.ids += 1
        return f"shell:{self.ids % 2}" if self.reuses_ids else f"call_{self.rng.randrange(1 << 48):012x}"

    def calls(self) -> list[dict[str, Any]]:
        made: dict[str, dict[str, Any]] = {}
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            call_id = self.call_id()
            if self.rng.random() < 0.15:
                made[call_id] = {"id": call_id, "type": "custom", "custom": {"name": "patch", "input": self.words(8)}}
            else:
                made[call_id] = builders.call(call_id, self.rng.choice(["look", "read"]), path=self.words(2))
        return list(made.values())

    def say(self) -> None:
        """A user message of any kind."""
        content = self.content(self.words(self.rng.choice([1, 5, 40])))
        if self.rng.random() < 0.1:
            content = [*builders.parts(self.words(2)), {"type": "image_url", "image_url": {"url": PIXEL}}]
        elif self.rng.random() < 0.05:
            content = ""
        self.add(builders.user(content))
        if self.rng.random() < 0.08:
            self.add(builders.system(self.words(8), "developer"))

    def take(self, message: Message) -> None:
        """A reply into the list, as clients copy it: whole, or without what they do not know."""
        message = dict(message)
        if self.rng.random() < 0.5:
            message.pop("reasoning_content", None)
        if message.get("content") is None and message.get("tool_calls") and self.rng.random() < 0.4:
            if self.rng.random() < 0.5:
                message.pop("content", None)
            else:
                message["content"] = ""
        if message.get("refusal"):
            message["content"] = message.get("content") or ""
        self.add(message)

    def answer(self, calls: Sequence[dict[str, Any]]) -> None:
        """All results, in the order in which they happened to come."""
        for call in self.rng.sample(list(calls), len(calls)):
            self.add(builders.result(call["id"], self.content(self.output())))

    def go_on(self) -> None:
        """The next thing of an agent that behaves."""
        calls = self.talk.open_calls()
        if calls:
            self.answer(calls)
        elif self.talk.messages[-1]["role"] == "assistant":
            self.say()

    # -- damage -------------------------------------------------------------------------------------
    def boundaries(self) -> list[int]:
        """Lengths at which the list may be cut: in front of a user message, and not the first one."""
        users = [index for index, message in enumerate(self.talk.messages) if message["role"] == "user"]
        return users[1:]

    def edit(self) -> None:
        """An earlier user message said anew; what followed is gone."""
        if places := self.boundaries():
            self.talk.cut(self.rng.choice(places))
            self.say()

    def regenerate(self) -> None:
        """Back to before the last answer."""
        last = max((i for i, m in enumerate(self.talk.messages) if m["role"] == "assistant"), default=0)
        if last:
            self.talk.cut(last)

    def fork(self) -> None:
        """On with a copy that was put aside, or put one aside."""
        if self.kept and self.rng.random() < 0.5:
            kept = self.rng.choice(self.kept)
            self.talk = kept.copy()
            self.go_on()
        else:
            self.kept.append(self.talk.copy())

    def prune(self) -> None:
        """The client cuts its own history: old turns gone, or old results shortened."""
        if self.rng.random() < 0.5:
            places = self.boundaries()
            if len(places) > 2:
                first = next(i for i, m in enumerate(self.talk.messages) if m["role"] == "user")
                end = self.rng.choice(places[1:])
                del self.talk.messages[first + 1 : end], self.talk.raws[first + 1 : end]
            return
        for index, message in enumerate(self.talk.messages[:-4]):
            if message["role"] == "tool" and self.rng.random() < 0.3:
                message["content"] = "[pruned]"
                self.talk.raws[index] = encode(self.rng, message)

    def rewrite(self) -> None:
        """The same values in another spelling, as after a save and load."""
        self.talk.raws = [encode(self.rng, message) for message in self.talk.messages]

    def move(self) -> None:
        """Something happens, and the list is fit to be sent again."""
        chance = self.rng.random()
        if chance < 0.62:
            self.go_on()
            return
        moves = [self.edit, self.regenerate, self.fork, self.prune, self.rewrite, lambda: None]
        self.rng.choice(moves)()
        if chance < 0.8 or self.talk.open_calls():
            self.go_on()


@dataclass(slots=True)
class RandomProvider:
    """Strict about pairs, honest about usage, with a window limit; says by chance, calls tools by chance.

    `refusals` holds what it refused for its pairs.
    """

    rng: random.Random
    limit: int
    agent: RandomAgent | None = None
    refusals: list[tuple[Request, str]] = field(default_factory=list)
    overflows: int = 0
    is_usage_known: bool = True

    def __call__(self, request: Request) -> Action:
        body = request.json()
        fault = chat_fault(body["messages"])
        if fault is not None:
            self.refusals.append((request, fault[0]))
            return replies.error_reply(400, fault[0], param=fault[1])
        tokens = len(request.body) // 4
        if tokens > self.limit:
            self.overflows += 1
            return replies.overflow_reply(self.limit, tokens)
        message, calls = self.message()
        text = message.get("content") or ""
        if body.get("stream"):
            wants = bool((body.get("stream_options") or {}).get("include_usage")) and self.is_usage_known
            events = replies.chat_events(text, calls=calls, with_usage=wants, prompt=tokens)
            if "reasoning_content" in message:
                events.insert(1, replies.event(replies.chunk({"reasoning_content": message["reasoning_content"]})))
            return replies.stream_reply(events)
        whole = replies.completion(message.pop("content"), prompt=tokens, **message)
        if not self.is_usage_known:
            del whole["usage"]
        return replies.json_reply(whole)

    def message(self) -> tuple[Message, list[dict[str, Any]]]:
        assert self.agent is not None
        agent = self.agent
        calls = agent.calls() if self.rng.random() < 0.7 else []
        calls = [call for call in calls if call["type"] == "function"] or calls[:0]
        text = None if calls and self.rng.random() < 0.5 else f"{agent.talk.mark} says {self.rng.randrange(1 << 30)}"
        message: Message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = calls
        if self.rng.random() < 0.2:
            message["reasoning_content"] = f"{agent.talk.mark} thinks " * 20
        return message, calls


def from_stream(body: bytes) -> Message:
    """The message that a client gathers from the events."""
    text, thoughts = "", ""
    calls: dict[int, dict[str, Any]] = {}
    for block in body.split(b"\n\n"):
        if not block.startswith(b"data: {"):
            continue
        for choice in json.loads(block[6:])["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            thoughts += delta.get("reasoning_content") or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"function": {"arguments": ""}})
                arguments = call["function"]["arguments"] + piece["function"]["arguments"]
                call.update({key: value for key, value in piece.items() if key in ("id", "type")})
                call["function"] = {**call["function"], **piece["function"], "arguments": arguments}
    message: Message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = list(calls.values())
    if thoughts:
        message["reasoning_content"] = thoughts
    return message
