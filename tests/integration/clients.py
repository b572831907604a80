"""The real clients that are driven through the product, by name."""

from __future__ import annotations

from tests.support import client_agents, client_loops
from tests.support.client_loops import Drive

DRIVES: dict[str, Drive] = {
    "openai": client_loops.openai_chat,
    "openai-async": client_loops.openai_async,
    "openai-responses": client_loops.openai_responses,
    "langchain": client_loops.langchain_chat,
    "langchain-responses": client_loops.langchain_responses,
    "litellm": client_loops.litellm_chat,
    "agents": client_agents.agents_chat,
    "agents-responses": client_agents.agents_responses,
    "pydantic-ai": client_agents.pydantic_chat,
    "pydantic-ai-responses": client_agents.pydantic_responses,
}
LITELLM_WARNING = "ignore:Items? .* using the .ReadOnly. qualifier:UserWarning:pydantic"
"""What litellm imports at its first completion hands such a TypedDict to pydantic."""
