from typing import Any

import pytest

from proxy.core.model import Usage
from proxy.core.usage import total
from proxy.wire.usage import read_usage

CASES: dict[str, tuple[dict[str, Any], Usage | None]] = {
    "openai chat": (
        {
            "usage": {
                "prompt_tokens": 1000,
                "completion_tokens": 50,
                "total_tokens": 1050,
                "prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 100},
                "completion_tokens_details": {"reasoning_tokens": 20},
            }
        },
        Usage(1000, 50, 800, 100, 20),
    ),
    "openai responses": (
        {
            "response": {
                "usage": {
                    "input_tokens": 1000,
                    "input_tokens_details": {"cached_tokens": 800},
                    "output_tokens": 50,
                    "output_tokens_details": {"reasoning_tokens": 20},
                    "total_tokens": 1050,
                }
            }
        },
        Usage(1000, 50, 800, 0, 20),
    ),
    "sglang": ({"usage": {"prompt_tokens": 5, "completion_tokens": 6, "reasoning_tokens": 4}}, Usage(5, 6, 0, 0, 4)),
    "vllm": (
        {"usage": {"prompt_tokens": 5, "completion_tokens": 6, "prompt_tokens_details": {"created_cache_tokens": 2}}},
        Usage(5, 6, 0, 2),
    ),
    "llama.cpp timings": (
        {"timings": {"prompt_n": 10, "cache_n": 90, "predicted_n": 7}, "choices": []},
        Usage(100, 7, 90),
    ),
    "llama.cpp both": (
        {"timings": {"prompt_n": 10, "cache_n": 90}, "usage": {"prompt_tokens": 100, "completion_tokens": 7}},
        Usage(100, 7, 90),
    ),
    "deepseek": (
        {"usage": {"prompt_tokens": 100, "completion_tokens": 7, "prompt_cache_hit_tokens": 60}},
        Usage(100, 7, 60),
    ),
    "deepseek halves": (
        {"usage": {"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40, "completion_tokens": 7}},
        Usage(100, 7, 60),
    ),
    "openrouter": (
        {
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "cost": 0.00125,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            }
        },
        Usage(100, 7, 0, 7, cost=0.00125),
    ),
    "groq": ({"x_groq": {"id": "r", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}}, Usage(3, 4)),
    "moonshot": (
        {"choices": [{"usage": {"prompt_tokens": 3, "completion_tokens": 4, "cached_tokens": 2}}]},
        Usage(3, 4, 2),
    ),
    "anthropic": (
        {
            "usage": {
                "input_tokens": 10,
                "cache_read_input_tokens": 80,
                "cache_creation_input_tokens": 10,
                "output_tokens": 5,
            }
        },
        Usage(100, 5, 80, 10),
    ),
    "anthropic made inclusive": (
        {
            "usage": {
                "input_tokens": 100,
                "cache_read_input_tokens": 80,
                "output_tokens": 5,
                "total_tokens": 105,
            }
        },
        Usage(100, 5, 80),
    ),
    "litellm": (
        {"usage": {"prompt_tokens": 100, "cache_read_input_tokens": 80, "completion_tokens": 5}},
        Usage(100, 5, 80),
    ),
    "gemini": ({"usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}}, Usage(10, 30)),
    "dashscope": (
        {
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_creation": {"ephemeral_5m_input_tokens": 2}},
            }
        },
        Usage(10, 5, 4, 2),
    ),
    "null": ({"usage": None}, None),
    "nonsense": ({"usage": {"prompt_tokens": "many", "completion_tokens": -1, "cost": True}}, None),
    "not a number": ({"usage": {"prompt_tokens": float("nan"), "completion_tokens": float("inf")}}, None),
    "wrong types": ({"usage": [1], "choices": [None, {"usage": 3}], "x_groq": 1, "timings": [], "response": 4}, None),
    "input only": ({"usage": {"prompt_tokens": 7}}, Usage(7, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_provider_is_read(name: str) -> None:
    document, expected = CASES[name]
    assert total(read_usage(document)) == expected
