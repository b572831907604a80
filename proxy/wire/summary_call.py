"""The request that asks a model for a summary, and its answer. The only place that knows their JSON."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from proxy.core.model import Usage
from proxy.wire.chat import ChatFormat
from proxy.wire.errors import load


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """What a model said."""

    text: str
    finish: str
    has_calls: bool
    has_reasoning: bool
    is_refusal: bool
    model: str
    usage: Usage | None


def summary_request(model: str, instruction: str, record: str) -> bytes:
    """No tools, no stream, no options that some provider might refuse."""
    clean = record.encode("utf-8", "replace").decode()  # half a surrogate pair is no text to any model
    messages = [{"role": "system", "content": instruction}, {"role": "user", "content": clean}]
    return orjson.dumps({"model": model, "messages": messages, "stream": False})


def summary_reply(body: bytes) -> SummaryReply | None:
    """The answer; None when it is none."""
    reader = ChatFormat().reader(is_stream=False, strip_usage=False)
    reader.feed(body)
    reader.finish()
    reply = reader.reply()
    value = load(body)
    if not isinstance(value, dict) or not isinstance(value.get("choices"), list):
        return None
    first = value["choices"][0] if value["choices"] else {}
    message = first.get("message") if isinstance(first, dict) else None
    message = message if isinstance(message, dict) else {}
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return SummaryReply(
        text=content if isinstance(content, str) else "",
        finish=reply.finish,
        has_calls=any(element.calls for element in reply.elements),
        has_reasoning=any(bool(message.get(name)) for name in ("reasoning", "reasoning_content", "thinking")),
        is_refusal=bool(message.get("refusal")),
        model=str(value.get("model") or ""),
        usage=reply.usage,
    )
