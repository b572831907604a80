"""Conversations whose window leaves something out, and replies that ask for it back. For Chat Completions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import builders, replies
from tests.support.serve import Served, ServedProcess, served
from tests.support.session import EAGER, ok, strict
from tests.support.upstream import Action, ScriptedUpstream

NAME = "ctx_expand"
BATCHED = {**EAGER, "min_batch": 1800}
"""Masks the first three results at once, and nothing for the sake of one more."""
SIZE = 3000
THEIRS = replies.tool_call("call_theirs01", "look", {"what": "the log"})
OTHER = replies.tool_call("call_other02", "look", {"what": "the map"})
ITEM_ID = re.compile(rb"\bid ([a-z2-7]{12})")


def expand(call_id: str = "call_exp00001", **arguments: Any) -> dict[str, Any]:
    return replies.tool_call(call_id, NAME, arguments)


def reply(text: str | None, calls: Sequence[dict[str, Any]] = (), *, stream: bool, **options: Any) -> Action:
    if stream:
        return replies.chat_stream(text or "", calls=calls, **options)
    return replies.json_reply(replies.completion(text, calls=calls, **options))


class Talk:
    """One conversation of a client that knows nothing of the tool. `ids` are of what its window left out, in order."""

    def __init__(
        self, proxy: Served | ServedProcess, up: ScriptedUpstream, *, stream: bool = False, **extra: Any
    ) -> None:
        self.proxy, self.up, self.stream = proxy, up, stream
        self.headers = extra.pop("headers", {})
        self.tools = extra.pop("own_tools", [builders.tool()])
        self.extra = extra
        self.messages: list[Any] = [builders.system(), builders.user("read"), *builders.steps(3, SIZE)]
        for text in ("and now", "what else"):
            self.say(text)
        self.ids = [found.decode() for found in dict.fromkeys(ITEM_ID.findall(up.requests[-1].body))]

    def say(self, text: str) -> Any:
        """The user speaks; whatever comes back goes into the list, as a client would put it there."""
        self.messages.append(builders.user(text))
        return self.ask()

    def ask(self) -> Any:
        response = ok(self.proxy, self.body(), headers=self.headers)
        message = assembled(response.text) if self.stream else response.json()["choices"][0]["message"]
        self.messages.append(message)
        return message

    def body(self) -> bytes:
        return builders.body_bytes(builders.request(self.messages, stream=self.stream, **self.extra, tools=self.tools))

    def window(self, place: int = -1) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.up.requests[place].json()["messages"]
        return found


@contextmanager
def talking(db: Path | None = None, *, stream: bool = False, **settings: Any) -> Iterator[Talk]:
    """A conversation over a provider that refuses lists which do not pair up."""
    settings.setdefault("policy__options", BATCHED)
    with ScriptedUpstream(strict) as up, served(up.base_url, db, **settings) as proxy:
        yield Talk(proxy, up, stream=stream)


def events(stream: str) -> list[Any]:
    """The documents of an event stream; the marker as it is."""
    found = [part.removeprefix("data: ") for part in stream.split("\n\n") if part.startswith("data: ")]
    return [data if data == "[DONE]" else json.loads(data) for data in found]


def assembled(stream: str) -> dict[str, Any]:
    """The message as an SDK would put it together, which trusts the indexes."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    for document in events(stream):
        if document == "[DONE]" or not document["choices"]:
            continue
        delta = document["choices"][0]["delta"]
        if delta.get("content"):
            message["content"] = (message["content"] or "") + delta["content"]
        for piece in delta.get("tool_calls", ()):
            call = calls.setdefault(
                piece["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            )
            call["id"] += piece.get("id") or ""
            for key in ("name", "arguments"):
                call["function"][key] += piece.get("function", {}).get(key) or ""
    if calls:
        assert sorted(calls) == list(range(len(calls))), "a client sees indexes from 0"
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return message


def text_of(message: dict[str, Any]) -> str:
    """A message's content as one text."""
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content)
