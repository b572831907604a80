"""A scripted model behind a strict provider of both formats, for real clients: long tool sessions, honest usage.

What it says follows from the last item alone, so a list that was reduced before it gets the same answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support import responses_events as events
from tests.support.builders import long_text
from tests.support.replies import (
    chat_events,
    completion,
    error_reply,
    json_reply,
    overflow_reply,
    stream_reply,
    tool_call,
)
from tests.support.strict_lists import chat_fault
from tests.support.strict_responses import responses_fault
from tests.support.upstream import Action, Request

SYSTEM = "You survey the harbour. Use the tool, then report."
TOOL = "survey"
TURNS = 3
STEPS = 4
RESULT_CHARS = 1_800
ASKED = re.compile(r"Survey number (\d+)")
SPENT = ("x-request-id", "req_scripted"), ("openai-processing-ms", "7")


def ask(turn: int) -> str:
    """What the user says at the start of a turn."""
    return f"Survey number {turn}: the outer mole, please – “as usual”."


def survey(place: str, row: int) -> str:
    """What the tool answers."""
    return f"{place}\n{long_text(row, RESULT_CHARS)}"


def report(turn: int) -> str:
    """What the model says at the end of a turn."""
    return f"Report {turn}: the mole holds. 防波堤は無事です 🙂\n" + "".join(
        f"- gauge {turn}.{number} was read twice and agrees with the tide table\n" for number in range(16)
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says: words, and calls as (id, arguments)."""

    name: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()


def _call_id(name: str, number: int) -> str:
    return "call_" + hashlib.sha256(f"{name}/{number}".encode()).hexdigest()[:24]


def _make_script() -> dict[str, Answer]:
    """Answers by what they follow: a turn's number, or the id of a call that was just answered."""
    script: dict[str, Answer] = {}
    for turn in range(1, TURNS + 1):
        before = [str(turn)]
        for step in range(STEPS):
            name = f"{turn}.{step}"
            count = 2 if step % 2 else 1
            rows = [turn * 100 + step * 10 + number for number in range(count)]
            arguments = [json.dumps({"place": f"môle «{row}»", "row": row}, ensure_ascii=False) for row in rows]
            calls = tuple((_call_id(name, number), text) for number, text in enumerate(arguments))
            answer = Answer(name, f"Looking at {rows}." if step % 3 == 0 else "", calls)
            script |= dict.fromkeys(before, answer)
            before = [call_id for call_id, _ in calls]
        script |= dict.fromkeys(before, Answer(f"{turn}.end", report(turn)))
    return script


SCRIPT = _make_script()
REASONING_OF = {
    item_id: f"rs_{answer.name}"
    for answer in SCRIPT.values()
    for item_id in (f"msg_{answer.name}", *(f"fc_{call_id}" for call_id, _ in answer.calls))
}
"""Every item is made behind a reasoning item, and wants it back in front of it."""


@dataclass(eq=False)
class StrictModel:
    """Handler of a scripted upstream. `refusals` are the texts of every 400 that it gave."""

    window: int = 1_000_000
    refusals: list[str] = field(default_factory=list)
    overflows: int = 0
    taken: list[Request] = field(default_factory=list)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, request: Request) -> Action:
        body = request.json()
        is_chat = request.path.endswith("/chat/completions")
        items = body["messages"] if is_chat else self._read(as_items(body["input"]))
        fault = self._chat_fault(body) if is_chat else self._responses_fault(items)
        if fault is not None:
            self.refusals.append(fault[0])
            return error_reply(400, fault[0], param=fault[1])
        tokens = count(items) + count(body.get("tools") or [])
        if tokens > self.window:
            self.overflows += 1
            return self._overflow(tokens, is_in_stream=not is_chat and bool(body.get("stream")))
        self.taken.append(request)
        answer = answer_to(items)
        if is_chat:
            return _chat_reply(body, answer, tokens)
        output = _output(body, answer)
        self.kept |= {item["id"]: item for item in output if body.get("store") is not False}
        return _responses_reply(body, answer, output, tokens)

    def _read(self, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Every reference as the item that it names."""
        return [self.kept.get(item["id"], item) if item.get("type") == "item_reference" else item for item in items]

    def _chat_fault(self, body: dict[str, Any]) -> tuple[str, str] | None:
        if body.get("stream_options") and not body.get("stream"):
            return "The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options"
        return chat_fault(body["messages"])

    def _responses_fault(self, items: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
        text = responses_fault(items, REASONING_OF)
        return None if text is None else (text, "input")

    def _overflow(self, tokens: int, *, is_in_stream: bool) -> Action:
        if is_in_stream:
            text = "Your input exceeds the context window of this model. Please adjust your input and try again."
            return stream_reply(events.failed_events("resp_failed", "context_length_exceeded", text))
        return overflow_reply(self.window, tokens)


def answer_to(items: Sequence[dict[str, Any]]) -> Answer:
    """The next words, from the last item alone."""
    last = items[-1]
    key = last.get("tool_call_id") or last.get("call_id")
    if key is None:
        match = ASKED.search(plain(last["content"]))
        assert match, f"nobody knows what to answer to {last}"
        key = match[1]
    return SCRIPT[key]


def plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def as_items(value: Any) -> list[dict[str, Any]]:
    """Responses input as a list; a bare text is one user message."""
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


def count(value: Any) -> int:
    """The provider's own counting: four characters a token."""
    return len(json.dumps(value, ensure_ascii=False)) // 4


def _chat_reply(body: dict[str, Any], answer: Answer, tokens: int) -> Action:
    calls = [tool_call(call_id, TOOL, arguments) for call_id, arguments in answer.calls]
    if not body.get("stream"):
        return json_reply(completion(answer.text or None, calls=calls, prompt=tokens), headers=SPENT)
    wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    return stream_reply(
        chat_events(answer.text, calls=calls, with_usage=wants_usage, prompt=tokens, size=40), headers=SPENT
    )


def _output(body: dict[str, Any], answer: Answer) -> list[dict[str, Any]]:
    sealed = f"gAAAA{answer.name}" * 20 if body.get("store") is False else None
    output = [events.reasoning_item(f"rs_{answer.name}", sealed)]
    if answer.text:
        output.append(events.message_item(f"msg_{answer.name}", answer.text))
    output += [events.call_item(f"fc_{call_id}", call_id, TOOL, arguments) for call_id, arguments in answer.calls]
    return output


def _responses_reply(body: dict[str, Any], answer: Answer, output: list[dict[str, Any]], tokens: int) -> Action:
    whole = events.response(f"resp_{answer.name}", output, events.usage(tokens, 10))
    if not body.get("stream"):
        return json_reply(whole, headers=SPENT)
    return stream_reply(events.reply_events(whole), headers=SPENT)
