"""All output and the last call's input, in every place where a provider reports usage."""

from __future__ import annotations

from proxy.core.model import Usage
from proxy.wire.expand_usage import Earlier, with_earlier


def test_output_adds_up_and_input_stays() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    summed = with_earlier({"usage": usage}, 5, 3)["usage"]
    assert summed == {
        "prompt_tokens": 9,
        "completion_tokens": 7,
        "total_tokens": 16,
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    assert usage["completion_tokens"] == 2


def test_wherever_it_stands() -> None:
    usage = {"output_tokens": 2}
    places = {"x_groq": {"usage": usage}, "response": {"usage": usage}, "choices": [{"usage": usage}, "odd"]}
    found = with_earlier(places, 5, 0)
    assert found["x_groq"]["usage"]["output_tokens"] == found["response"]["usage"]["output_tokens"] == 7
    assert found["choices"] == [{"usage": {"output_tokens": 7}}, "odd"]
    assert with_earlier({"usage": None, "a": 1}, 5, 0) == {"usage": None, "a": 1}


def test_rounds_without_a_figure_count_nothing() -> None:
    earlier = Earlier()
    earlier.add(None)
    assert earlier.into({"usage": {"output_tokens": 2}}) == {"usage": {"output_tokens": 2}}
    earlier.add(Usage(10, 3, reasoning=1))
    earlier.add(Usage(10, 4))
    assert earlier.into({"usage": {"output_tokens": 2}}) == {"usage": {"output_tokens": 9}}
