"""An agent's session through the proxy in few words, and what the provider saw of it. Also: windows from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

from proxy.store.base import Store
from proxy.store.open import open_store
from tests.support import builders, replies
from tests.support.serve import Served, ServedProcess
from tests.support.strict_lists import chat_fault
from tests.support.upstream import Action, Request, ScriptedUpstream

T = TypeVar("T")
EAGER = {"economics": False, "mask_at": 0, "keep": 0, "min_batch": 0, "min_share": 0}
"""Options of the default policy that mask every result as soon as the rules allow it."""
NEVER = {"economics": False, "mask_at": 1_000_000}
"""No masks of its own accord."""
OMITTED = b"output omitted from history"
FOLDED = b"of this conversation, made by the proxy"


def tokens_of(body: bytes) -> int:
    """What the scripted provider bills: four bytes a token."""
    return len(body) // 4


def strict(request: Request) -> Action:
    """Refuses a list that does not pair up; otherwise answers, billing what it got."""
    fault = chat_fault(request.json()["messages"])
    if fault is not None:
        return replies.error_reply(400, fault[0], param=fault[1])
    if request.json().get("stream"):
        return replies.chat_stream("noted", prompt=tokens_of(request.body))
    return replies.json_reply(replies.completion("noted", prompt=tokens_of(request.body)))


def post(
    proxy: Served | ServedProcess, messages: Sequence[Any] | bytes, *, headers: dict[str, str] | None = None,
    tools: bool = True, **extra: Any,
) -> httpx.Response:  # fmt: skip
    """One request; bytes go out as they are."""
    if isinstance(messages, bytes):
        body = messages
    else:
        body = builders.body_bytes(builders.request(messages, tools=[builders.tool()] if tools else [], **extra))
    head = {"content-type": "application/json", "authorization": "Bearer sk-one", **(headers or {})}
    return httpx.post(f"{proxy.base_url}/chat/completions", content=body, headers=head, timeout=30)


def step_answer(messages: Sequence[Any], body_tokens: int = 100) -> Action:
    """The provider's reply that the client then has in its list: its next assistant message."""
    return replies.json_reply(replies.completion(None, calls=messages[0]["tool_calls"], prompt=body_tokens))


def ok(*args: Any, **options: Any) -> httpx.Response:
    reply = post(*args, **options)
    assert reply.status_code == 200, reply.text
    return reply


def conversation(reply: httpx.Response) -> str:
    return reply.headers["x-undercliff-conversation"]


def sent(up: ScriptedUpstream, place: int = -1) -> list[dict[str, Any]]:
    """The messages of one request as the provider got them."""
    messages: list[dict[str, Any]] = up.requests[place].json()["messages"]
    return messages


def raw_messages(body: bytes) -> list[bytes]:
    """The list's elements as the bytes they are, for comparing prefixes."""
    from_proxy = body.split(b'"messages":', 1)[1]
    depth, start, out, in_text, i = 0, 0, [], False, 0
    while i < len(from_proxy):
        char = from_proxy[i : i + 1]
        if in_text:
            if char == b"\\":
                i += 1
            elif char == b'"':
                in_text = False
        elif char == b'"':
            in_text = True
        elif char in b"[{":
            depth += 1
            start = i if depth == 2 else start
        elif char in b"]}":
            if depth == 2:
                out.append(from_proxy[start : i + 1])
            depth -= 1
            if depth == 0:
                break
        i += 1
    return out


def from_store(db: Path | str, read: Callable[[Store], Awaitable[T]]) -> T:
    """What `read` finds in a store of its own on the same file."""

    async def run() -> T:
        store = open_store(str(db))
        await store.open()
        try:
            return await read(store)
        finally:
            await store.aclose()

    return asyncio.run(run())
