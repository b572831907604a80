"""Clients whose application runs the tool loop itself: openai (both APIs), langchain-openai, litellm."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langchain_openai import ChatOpenAI

from tests.support.strict_model import SYSTEM, TOOL, TURNS, ask, survey

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or its import asks the network for prices

import litellm

MODEL = "scripted-1"
KEY = "sk-scripted"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"place": {"type": "string"}, "row": {"type": "integer"}},
    "required": ["place", "row"],
    "additionalProperties": False,
}
CHAT_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": TOOL, "description": "Surveys a place.", "parameters": SCHEMA},
}
RESPONSES_TOOL: dict[str, Any] = {
    "type": "function",
    "name": TOOL,
    "description": "Surveys a place.",
    "parameters": SCHEMA,
    "strict": True,
}


@dataclass(slots=True)
class Outcome:
    """What an application saw: final texts, the tool's arguments in order, and of each reply the pieces' kinds."""

    answers: list[str] = field(default_factory=list)
    calls: list[tuple[str, int]] = field(default_factory=list)
    shapes: list[tuple[str, ...]] = field(default_factory=list)

    def starts_with(self, other: Outcome) -> bool:
        """Is `other` this session, ended earlier?"""
        return (
            all(
                getattr(self, name)[: len(getattr(other, name))] == getattr(other, name) and getattr(other, name)
                for name in ("answers", "calls")
            )
            and self.shapes[: len(other.shapes)] == other.shapes
        )

    def run_tool(self, arguments: str | dict[str, Any]) -> str:
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
        self.calls.append((values["place"], values["row"]))
        return survey(**values)


Drive = Callable[..., Outcome]
"""`drive(base_url, stream=..., turns=..., retries=...)` runs a session and raises what the client raises."""


# -- openai, chat ----------------------------------------------------------------------------------


def _chat_shape(chunk: Any) -> str:
    """Everything of a chunk but its words: which fields came, and whether usage was among them."""
    deltas = [",".join(sorted(choice.delta.model_dump(exclude_none=True))) for choice in chunk.choices]
    finish = [choice.finish_reason or "" for choice in chunk.choices]
    return f"{deltas} {finish} usage={chunk.usage is not None} {sorted(chunk.model_fields_set)}"


@dataclass(slots=True)
class _Assembled:
    """A chat reply put together from chunks, as applications do it."""

    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)

    def add(self, chunk: Any) -> None:
        self.shapes.append(_chat_shape(chunk))
        for choice in chunk.choices:
            self.text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                if piece.index == len(self.calls):
                    function = {"name": piece.function.name, "arguments": ""}
                    self.calls.append({"id": piece.id, "type": "function", "function": function})
                self.calls[piece.index]["function"]["arguments"] += piece.function.arguments or ""

    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        return {**message, "tool_calls": self.calls} if self.calls else message


def _whole(reply: Any, outcome: Outcome) -> dict[str, Any]:
    outcome.shapes.append((f"{reply.choices[0].finish_reason} usage={reply.usage is not None}",))
    message: dict[str, Any] = reply.choices[0].message.model_dump(exclude_none=True)
    return message


def _take_chat(outcome: Outcome, messages: list[Any], message: dict[str, Any]) -> bool:
    """Append the reply and the results of its calls; True when the turn is over."""
    messages.append(message)
    for call in message.get("tool_calls") or ():
        result = outcome.run_tool(call["function"]["arguments"])
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    if message.get("tool_calls"):
        return False
    outcome.answers.append(message["content"])
    return True


def openai_chat(
    base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0, usage: bool | None = None
) -> Outcome:
    """`usage`: ask for it in streams (None: say nothing)."""
    outcome = Outcome()
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    options: dict[str, Any] = {} if usage is None else {"stream_options": {"include_usage": usage}}
    with openai.OpenAI(base_url=base_url, api_key=KEY, max_retries=retries) as client:
        for turn in range(1, turns + 1):
            messages.append({"role": "user", "content": ask(turn)})
            is_over = False
            while not is_over:
                if not stream:
                    reply = client.chat.completions.create(model=MODEL, messages=messages, tools=[CHAT_TOOL])  # type: ignore[list-item]
                    is_over = _take_chat(outcome, messages, _whole(reply, outcome))
                    continue
                whole = _Assembled()
                for chunk in client.chat.completions.create(
                    model=MODEL, messages=messages, tools=[CHAT_TOOL], stream=True, **options
                ):
                    whole.add(chunk)
                outcome.shapes.append(tuple(whole.shapes))
                is_over = _take_chat(outcome, messages, whole.message())
    return outcome


def openai_async(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    return asyncio.run(_openai_async(base_url, stream, turns, retries))


async def _openai_async(base_url: str, stream: bool, turns: int, retries: int) -> Outcome:
    outcome = Outcome()
    messages: list[Any] = [{"role": "developer", "content": SYSTEM}]
    async with openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=retries) as client:
        create: Any = client.chat.completions.create
        for turn in range(1, turns + 1):
            messages.append({"role": "user", "content": [{"type": "text", "text": ask(turn)}]})
            is_over = False
            while not is_over:
                reply = await create(model=MODEL, messages=messages, tools=[CHAT_TOOL], stream=stream)
                if not stream:
                    is_over = _take_chat(outcome, messages, _whole(reply, outcome))
                    continue
                whole = _Assembled()
                async for chunk in reply:
                    whole.add(chunk)
                outcome.shapes.append(tuple(whole.shapes))
                is_over = _take_chat(outcome, messages, whole.message())
    return outcome


# -- openai, responses -----------------------------------------------------------------------------


def openai_responses(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    outcome = Outcome()
    items: list[Any] = []
    with openai.OpenAI(base_url=base_url, api_key=KEY, max_retries=retries) as client:
        create: Any = client.responses.create
        for turn in range(1, turns + 1):
            items.append({"role": "user", "content": ask(turn)})
            is_over = False
            while not is_over:
                reply = create(model=MODEL, instructions=SYSTEM, input=items, tools=[RESPONSES_TOOL], stream=stream)
                whole = _last_response(reply, outcome) if stream else reply
                if not stream:
                    outcome.shapes.append((f"{whole.status} usage={whole.usage is not None}",))
                items += [item.model_dump(exclude_none=True) for item in whole.output]
                calls = [item for item in whole.output if item.type == "function_call"]
                for call in calls:
                    result = outcome.run_tool(call.arguments)
                    items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
                is_over = not calls
            outcome.answers.append(whole.output_text)
    return outcome


def _last_response(events: Iterable[Any], outcome: Outcome) -> Any:
    seen = list(events)
    outcome.shapes.append(tuple(f"{event.sequence_number} {event.type}" for event in seen))
    assert seen[-1].type == "response.completed", seen[-1]
    return seen[-1].response


# -- langchain-openai ------------------------------------------------------------------------------


def langchain_chat(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    return _langchain(base_url, stream, turns, retries, use_responses=False)


def langchain_responses(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    return _langchain(base_url, stream, turns, retries, use_responses=True)


def _langchain(base_url: str, stream: bool, turns: int, retries: int, *, use_responses: bool) -> Outcome:
    outcome = Outcome()
    with_tool = langchain_tool(TOOL, description="Surveys a place.")(survey)
    # Its own HTTP client is shared by all models of one base URL and never closed.
    with openai.DefaultHttpxClient() as http:
        options: dict[str, Any] = {"base_url": base_url, "api_key": KEY, "max_retries": retries, "http_client": http}
        if use_responses:
            options["use_responses_api"] = True
        bound = ChatOpenAI(model=MODEL, **options).bind_tools([with_tool])
        messages: list[Any] = [SystemMessage(SYSTEM)]
        for turn in range(1, turns + 1):
            messages.append(HumanMessage(ask(turn)))
            while True:
                reply = _gathered(bound.stream(messages), outcome) if stream else bound.invoke(messages)
                if not stream:
                    outcome.shapes.append((f"usage={reply.usage_metadata is not None}",))
                messages.append(reply)
                for call in reply.tool_calls:
                    result = outcome.run_tool(call["args"])
                    messages.append(ToolMessage(result, tool_call_id=call["id"]))
                if not reply.tool_calls:
                    break
            outcome.answers.append(reply.text)
    return outcome


def _gathered(chunks: Iterable[Any], outcome: Outcome) -> AIMessage:
    seen = list(chunks)
    outcome.shapes.append(tuple(f"usage={chunk.usage_metadata is not None}" for chunk in seen))
    whole = seen[0]
    for chunk in seen[1:]:
        whole += chunk
    assert isinstance(whole, AIMessage)
    return whole


# -- litellm ---------------------------------------------------------------------------------------


def litellm_chat(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    try:
        return _litellm(base_url, stream, turns, retries)
    finally:
        kept = litellm.in_memory_llm_clients_cache
        for client in kept.cache_dict.values():
            if isinstance(client, openai.OpenAI):
                client.close()
        kept.flush_cache()


def _litellm(base_url: str, stream: bool, turns: int, retries: int) -> Outcome:
    outcome = Outcome()
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    for turn in range(1, turns + 1):
        messages.append({"role": "user", "content": ask(turn)})
        is_over = False
        while not is_over:
            reply: Any = litellm.completion(
                model=f"openai/{MODEL}",
                api_base=base_url,
                api_key=KEY,
                messages=messages,
                tools=[CHAT_TOOL],
                stream=stream,
                max_retries=retries,
            )
            if stream:
                chunks = list(reply)
                outcome.shapes.append(tuple(f"usage={'usage' in chunk.model_fields_set}" for chunk in chunks))
                reply = litellm.stream_chunk_builder(chunks)
                message = reply.choices[0].message.model_dump(exclude_none=True)
            else:
                message = _whole(reply, outcome)
            is_over = _take_chat(outcome, messages, message)
    return outcome
