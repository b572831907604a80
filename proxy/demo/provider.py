"""A scripted provider of Chat Completions: strict about lists, honest about usage, with cache, cliff and limit.

It stands in for a real one in the demo and in tests. It never looks at who is calling but by key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proxy.core.model import Usage
from proxy.demo.bill import PromptCache, Rates, Segment, cost
from proxy.demo.pairing import Refusal, check_pairing

AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]

PIECE = 48  # characters of a streamed delta


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call that the model makes. `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says next."""

    text: str
    calls: tuple[ScriptedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """One request as the provider saw and billed it. A refused one costs nothing."""

    key: str
    model: str
    status: int
    usage: Usage
    cost: float
    messages: int
    body: bytes
    is_break: bool = False
    is_tail_change: bool = False
    is_above_cliff: bool = False
    refusal: str = ""


Script = Callable[[Sequence[dict[str, Any]]], Answer]
Count = Callable[[str], int]


def count_quarters(text: str) -> int:
    """The rough count: four characters a token."""
    return len(text) // 4


@dataclass(slots=True)
class Provider:
    """An ASGI app. `window` may be changed while it runs; `served` is what it saw, in order."""

    script: Script
    window: int = 105_000
    rates: Rates = field(default_factory=Rates)
    count: Count = count_quarters
    pace_s: float = 0.0
    served: list[Served] = field(default_factory=list)
    _caches: dict[str, PromptCache] = field(default_factory=dict)
    _counted: dict[str, int] = field(default_factory=dict)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        body = await _read(receive)
        path = scope["path"]
        if path.endswith("/chat/completions") and scope["method"] == "POST":
            await self._complete(_bearer(scope), body, send)
        elif path.endswith("/models"):
            await _send_json(send, 200, {"object": "list", "data": [{"id": "demo", "object": "model"}]})
        else:
            await _send_json(send, 404, _error(Refusal(f"Unknown request URL: {scope['method']} {path}.", status=404)))

    async def answer(self, request: dict[str, Any], tokens: int) -> Answer | Refusal:
        """What the model says to a valid request of so many tokens; another provider may ask a real one."""
        del tokens
        return self.script(request["messages"])

    async def _complete(self, key: str, body: bytes, send: Send) -> None:
        try:
            request = json.loads(body)
        except ValueError:
            request = None
        tokens, refusal = 0, _check_shape(request)
        if refusal is None:
            prompt = self._render(request)
            tokens = sum(segment.tokens for segment in prompt)
            refusal = check_pairing(request["messages"]) or self._check_length(request, tokens)
        said = await self.answer(request, tokens) if refusal is None else refusal
        if isinstance(said, Refusal):
            model = request.get("model", "") if isinstance(request, dict) else ""
            self.served.append(
                Served(key, str(model), said.status, Usage(tokens, 0), 0.0, 0, body, refusal=said.message)
            )
            await _send_json(send, said.status, _error(said))
            return
        usage = self._charge(key, request, prompt, said, body)
        if request.get("stream"):
            wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
            await self._stream(send, request["model"], said, usage, wants_usage)
        else:
            await _send_json(send, 200, _completion(request["model"], said, usage))

    def _render(self, request: dict[str, Any]) -> list[Segment]:
        texts = [_dump(request["tools"])] if request.get("tools") else []
        texts += [_dump(message) for message in request["messages"]]
        return [Segment(text, self._tokens(text)) for text in texts]

    def _tokens(self, text: str) -> int:
        if text not in self._counted:
            self._counted[text] = self.count(text)
        return self._counted[text]

    def _check_length(self, request: dict[str, Any], tokens: int) -> Refusal | None:
        if tokens > self.window:
            text = (
                f"This model's maximum context length is {self.window} tokens. However, your messages resulted in "
                f"{tokens} tokens. Please reduce the length of the messages."
            )
            return Refusal(text, "messages", "context_length_exceeded")
        reply = request.get("max_completion_tokens") or request.get("max_tokens") or 0
        if tokens + reply > self.window:
            text = (
                f"This model's maximum context length is {self.window} tokens. However, you requested "
                f"{tokens + reply} tokens ({tokens} in the messages, {reply} in the completion). "
                "Please reduce the length of the messages or completion."
            )
            return Refusal(text, "messages", "context_length_exceeded")
        return None

    def _charge(self, key: str, request: dict[str, Any], prompt: list[Segment], answer: Answer, body: bytes) -> Usage:
        match = self._caches.setdefault(key, PromptCache()).match(prompt)
        tokens = sum(segment.tokens for segment in prompt)
        output = self.count(answer.text) + sum(self.count(call.name + call.arguments) + 8 for call in answer.calls)
        usage = Usage(tokens, max(output, 1), cached=match.cached)
        self.served.append(
            Served(
                key,
                str(request["model"]),
                200,
                usage,
                cost(self.rates, usage),
                len(request["messages"]),
                body,
                is_break=match.is_break,
                is_tail_change=match.is_tail_change,
                is_above_cliff=self.rates.cliff is not None and tokens > self.rates.cliff,
            )
        )
        return usage

    async def _stream(self, send: Send, model: str, answer: Answer, usage: Usage, wants_usage: bool) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-request-id", b"req_demo")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for value in _chunks(model, answer, usage, wants_usage):
            await send({"type": "http.response.body", "body": f"data: {_dump(value)}\n\n".encode(), "more_body": True})
            if self.pace_s:
                await asyncio.sleep(self.pace_s)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


# -- the wire --------------------------------------------------------------------------------------


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _bearer(scope: MutableMapping[str, Any]) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization":
            return str(value.decode("latin-1").removeprefix("Bearer "))
    return ""


def _check_shape(request: Any) -> Refusal | None:
    if not isinstance(request, dict):
        return Refusal("We could not parse the JSON body of your request.")
    if not isinstance(request.get("model"), str):
        return Refusal("you must provide a model parameter")
    if not isinstance(request.get("messages"), list) or not request["messages"]:
        text = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array."
        return Refusal(text, "messages", "empty_array")
    if request.get("stream_options") and not request.get("stream"):
        return Refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    return None


def _error(refusal: Refusal) -> dict[str, Any]:
    fields = {"message": refusal.message, "type": "invalid_request_error"}
    return {"error": {**fields, "param": refusal.param, "code": refusal.code}}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _call(call: ScriptedCall, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _completion(model: str, answer: Answer, usage: Usage) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = [_call(call, call.arguments) for call in answer.calls]
    finish = "tool_calls" if answer.calls else "stop"
    return {
        "id": "chatcmpl-demo",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(usage),
    }


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for start in range(0, len(answer.text), PIECE):
        yield {"content": answer.text[start : start + PIECE]}
    for index, call in enumerate(answer.calls):
        yield {"tool_calls": [{"index": index, **_call(call, "")}]}
        for start in range(0, len(call.arguments), PIECE):
            piece = call.arguments[start : start + PIECE]
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _chunks(model: str, answer: Answer, usage: Usage, wants_usage: bool) -> Iterator[dict[str, Any]]:
    base = {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": model}
    extra = {"usage": None} if wants_usage else {}
    for delta in _deltas(answer):
        yield {**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], **extra}
    finish = "tool_calls" if answer.calls else "stop"
    yield {**base, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish}], **extra}
    if wants_usage:
        yield {**base, "choices": [], "usage": _usage(usage)}


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _send_json(send: Send, status: int, value: dict[str, Any]) -> None:
    body = _dump(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"x-request-id", b"req_demo")]})
    await send({"type": "http.response.body", "body": body})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
