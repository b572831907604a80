"""Clients that run the tool loop for the application: openai-agents and pydantic-ai, each over both APIs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Any

import openai
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel as PydanticChat
from pydantic_ai.models.openai import OpenAIResponsesModel as PydanticResponses
from pydantic_ai.providers.openai import OpenAIProvider

from tests.support.client_loops import KEY, MODEL, Outcome
from tests.support.strict_model import SYSTEM, TOOL, TURNS, ask

set_tracing_disabled(True)


# -- openai-agents ---------------------------------------------------------------------------------


def agents_chat(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    return asyncio.run(_agents(OpenAIChatCompletionsModel, base_url, stream, turns, retries))


def agents_responses(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    return asyncio.run(_agents(OpenAIResponsesModel, base_url, stream, turns, retries))


async def _agents(kind: Any, base_url: str, stream: bool, turns: int, retries: int) -> Outcome:
    outcome = Outcome()

    @function_tool(name_override=TOOL, description_override="Surveys a place.")
    async def run(place: str, row: int) -> str:
        return outcome.run_tool({"place": place, "row": row})

    async with openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=retries) as client:
        agent = Agent(name="Surveyor", instructions=SYSTEM, tools=[run], model=kind(MODEL, client))
        items: list[Any] = []
        for turn in range(1, turns + 1):
            items.append({"role": "user", "content": ask(turn)})
            if stream:
                running = Runner.run_streamed(agent, items)
                outcome.shapes.append(tuple([_agents_shape(event) async for event in running.stream_events()]))
                result: Any = running
            else:
                result = await Runner.run(agent, items)
                outcome.shapes.append(tuple(f"usage={reply.usage.requests}" for reply in result.raw_responses))
            items = result.to_input_list()
            outcome.answers.append(result.final_output)
    return outcome


def _agents_shape(event: Any) -> str:
    return f"{event.type} {getattr(event.data, 'type', '')}" if event.type == "raw_response_event" else event.type


# -- pydantic-ai -----------------------------------------------------------------------------------


def pydantic_chat(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    return asyncio.run(_pydantic(PydanticChat, base_url, stream, turns, retries))


def pydantic_responses(base_url: str, *, stream: bool, turns: int = TURNS, retries: int = 0) -> Outcome:
    return asyncio.run(_pydantic(PydanticResponses, base_url, stream, turns, retries))


async def _pydantic(kind: Any, base_url: str, stream: bool, turns: int, retries: int) -> Outcome:
    outcome = Outcome()

    async def listen(_: Any, events: AsyncIterable[Any]) -> None:
        outcome.shapes.append(tuple([type(event).__name__ async for event in events]))

    async with openai.AsyncOpenAI(base_url=base_url, api_key=KEY, max_retries=retries) as client:
        model = kind(MODEL, provider=OpenAIProvider(openai_client=client))
        agent = PydanticAgent(model, instructions=SYSTEM)

        @agent.tool_plain(name=TOOL)
        async def run(place: str, row: int) -> str:
            """Surveys a place."""
            return outcome.run_tool({"place": place, "row": row})

        history: list[Any] = []
        for turn in range(1, turns + 1):
            handler = listen if stream else None
            result = await agent.run(ask(turn), message_history=history, event_stream_handler=handler)
            history = result.all_messages()
            outcome.answers.append(result.output)
    return outcome
