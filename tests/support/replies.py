"""Answers for the scripted upstream: JSON, event streams, errors, compressed bodies, cuts. Values only."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import brotli
import zstandard

from tests.support.upstream import Action, Fin, Hang, Reset, Send, Step, flatten

Framing = Literal["length", "chunked", "close"]
Headers = Iterable[tuple[str, str]]
DONE = b"data: [DONE]\n\n"
REASONS = {200: "OK", 201: "Created", 302: "Found", 400: "Bad Request", 429: "Too Many Requests", 502: "Bad Gateway"}


def head(status: int, headers: Headers = (), *, length: int | None = None, framing: Framing = "length") -> bytes:
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}", *(f"{name}: {value}" for name, value in headers)]
    if framing == "chunked":
        lines.append("transfer-encoding: chunked")
    elif framing == "close":
        lines.append("connection: close")
    else:
        lines.append(f"content-length: {length or 0}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def raw_reply(status: int, body: bytes = b"", headers: Headers = (), *, framing: Framing = "length") -> Action:
    """Any status, headers exactly as given (repeats and all), any body."""
    start = head(status, headers, length=len(body), framing=framing)
    if framing == "chunked":
        body = (http_chunk(body) if body else b"") + b"0\r\n\r\n"
    return Action((Send(start + body),), is_last=framing == "close")


def json_reply(value: Any, status: int = 200, headers: Headers = (), *, framing: Framing = "length") -> Action:
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return raw_reply(status, body, [("content-type", "application/json"), *headers], framing=framing)


def error_reply(
    status: int, message: str, *, kind: str = "invalid_request_error", param: str | None = None, code: Any = None,
    headers: Headers = (),
) -> Action:  # fmt: skip
    error = {"message": message, "type": kind, "param": param, "code": code}
    return json_reply({"error": error}, status, headers)


def overflow_reply(limit: int, requested: int) -> Action:
    """As OpenAI words it."""
    text = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {requested} tokens."
        " Please reduce the length of the messages."
    )
    return error_reply(400, text, param="messages", code="context_length_exceeded")


def redirect_reply(location: str, status: int = 302) -> Action:
    return raw_reply(status, b"", [("location", location)])


def stream_reply(
    parts: Iterable[Step | bytes | float], *, status: int = 200, headers: Headers = (), framing: Framing = "chunked",
    content_type: str = "text/event-stream",
) -> Action:  # fmt: skip
    """The head in one write, then each bytes part in one write (one HTTP chunk when chunked).

    Gates and numbers between them wait. Ends well unless a part is Fin, Reset or Hang.
    """
    if framing == "length":
        raise ValueError("a stream is chunked or close-delimited")
    steps: list[Step] = [Send(head(status, [("content-type", content_type), *headers], framing=framing))]
    ends_well = True
    for step in flatten(parts):
        if isinstance(step, Send):
            steps.append(Send(http_chunk(step.data)) if framing == "chunked" else step)
        else:
            steps.append(step)
            ends_well = ends_well and not isinstance(step, Fin | Reset | Hang)
    if ends_well and framing == "chunked":
        steps.append(Send(b"0\r\n\r\n"))
    return Action(tuple(steps), is_last=framing == "close")


def head_then_silence(headers: Headers = ()) -> Action:
    return stream_reply([Hang()], headers=headers)


def close_without_a_byte(*, reset: bool = False) -> Action:
    return Action((Reset() if reset else Fin(),))


def cut_stream(parts: Sequence[Step | bytes | float], *, reset: bool = True, framing: Framing = "chunked") -> Action:
    """The parts, then RST (or a clean FIN without the end that the framing promised)."""
    return stream_reply([*parts, Reset() if reset else Fin()], framing=framing)


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def cut_at(data: bytes, *places: int) -> list[bytes]:
    """The same bytes in pieces, cut at these places."""
    edges = [0, *places, len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def encode_body(body: bytes, coding: str) -> bytes:
    match coding:
        case "gzip":
            return gzip.compress(body, mtime=0)
        case "deflate":
            return zlib.compress(body)
        case "br":
            return bytes(brotli.compress(body))
        case "zstd":
            return zstandard.ZstdCompressor().compress(body)
    raise ValueError(f"unknown coding {coding}")


def compressed_reply(
    body: bytes, coding: str, status: int = 200, *, content_type: str = "application/json", framing: Framing = "length"
) -> Action:
    headers = [("content-type", content_type), ("content-encoding", coding)]
    return raw_reply(status, encode_body(body, coding), headers, framing=framing)


# -- chat completions ------------------------------------------------------------------------------


def usage(prompt: int, completion: int = 10, cached: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def tool_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def completion(
    text: str | None = "fine", *, calls: Sequence[dict[str, Any]] = (), prompt: int = 100, output: int = 10,
    cached: int = 0, model: str = "scripted-1", finish: str | None = None, **extra: Any,
) -> dict[str, Any]:  # fmt: skip
    """A whole chat completion; `extra` goes into its message."""
    message: dict[str, Any] = {"role": "assistant", "content": text, **extra}
    if calls:
        message["tool_calls"] = list(calls)
    finish = finish or ("tool_calls" if calls else "stop")
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": usage(prompt, output, cached),
    }


def event(value: Any) -> bytes:
    """One SSE event of a JSON value (or of text as it is)."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return b"data: " + text.encode() + b"\n\n"


def chunk(delta: dict[str, Any] | None, *, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    """One chat completion chunk; `delta=None` gives empty choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    base = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 1_790_000_000}
    return {**base, "model": "scripted-1", "choices": choices, **extra}


def chat_events(
    text: str = "fine", *, calls: Sequence[dict[str, Any]] = (), with_usage: bool = True, prompt: int = 100,
    output: int = 10, cached: int = 0, size: int = 8, done: bool = True,
) -> list[bytes]:  # fmt: skip
    """A whole streamed answer as a list of events: role, text pieces, call pieces, finish, usage, marker."""
    events = [event(chunk({"role": "assistant", "content": ""}))]
    events += [event(chunk({"content": text[i : i + size]})) for i in range(0, len(text), size)]
    for index, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        start = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        events.append(event(chunk({"tool_calls": [start]})))
        for i in range(0, len(arguments), size):
            piece = {"index": index, "function": {"arguments": arguments[i : i + size]}}
            events.append(event(chunk({"tool_calls": [piece]})))
    events.append(event(chunk({}, finish="tool_calls" if calls else "stop")))
    if with_usage:
        events.append(event(chunk(None, usage=usage(prompt, output, cached))))
    if done:
        events.append(DONE)
    return events


def chat_stream(text: str = "fine", **options: Any) -> Action:
    """`chat_events` as one ordinary streamed answer."""
    return stream_reply(chat_events(text, **options))
