"""Near a limit the provider counts a request before it is sent: its figure decides, and never more than that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.support.builders import long_text
from tests.support.keeping_provider import Keeper
from tests.support.replies import error_reply, head_then_silence, json_reply
from tests.support.serve import served
from tests.support.session import NEVER
from tests.support.upstream import Action, Request, ScriptedUpstream

WINDOW, GUARD = 10_000, 8_600
TIDES = [long_text(row, 1800) for row in range(5)]
TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]


@dataclass(eq=False)
class Counting:
    """A provider that says `says` when it is asked for a count: a figure, or what goes wrong."""

    says: int | Action
    keeper: Keeper

    def __call__(self, request: Request) -> Action:
        if not request.path.endswith("/input_tokens"):
            return self.keeper(request)
        return self.says if isinstance(self.says, Action) else json_reply({"input_tokens": self.says})


@contextmanager
def session(says: int | Action, words: int, *, is_on: bool = True) -> Iterator[tuple[list[Request], list[Any]]]:
    """A turn with small results, then one with a large one: the requests for counts, and the last list sent."""
    keeper = Keeper()
    keeper.answers = [keeper.said("read")]
    keeper.answers.append(keeper.called("call_bYc28deF33", what="wind"))
    settings: dict[str, Any] = {"models": {"*": {"window": WINDOW}}, "responses__count_input": is_on}
    items: list[Any] = [{"role": "user", "content": "read the gauges"}]
    for row, tides in enumerate(TIDES):
        call_id = f"call_aXb19cdE2{row}"
        items.append({"type": "function_call", "call_id": call_id, "name": "look", "arguments": f'{{"row":{row}}}'})
        items.append({"type": "function_call_output", "call_id": call_id, "output": tides})
    with (
        ScriptedUpstream(Counting(says, keeper)) as up,
        served(up.base_url, policy__options={**NEVER, "min_tail": 1}, expand__enabled=False, **settings) as proxy,
    ):
        for _ in range(3):
            body = {"model": "scripted-1", "input": items, "tools": TOOLS, "store": False}
            headers = {"authorization": "Bearer sk-one"}
            reply = httpx.post(f"{proxy.base_url}/responses", json=body, headers=headers, timeout=20)
            assert reply.status_code == 200, reply.text
            output = reply.json()["output"]
            items += output
            if output[-1]["type"] == "function_call":
                call = output[-1]["call_id"]
                items.append({"type": "function_call_output", "call_id": call, "output": "wind " * words})
            else:
                items.append({"role": "user", "content": "and the wind?"})
        assert not keeper.refusals
        counts = [request for request in up.requests if request.path.endswith("/input_tokens")]
        yield counts, keeper.lists[-1]


def is_smaller(items: list[Any]) -> bool:
    return TIDES[0] not in [item.get("output") for item in items]


@pytest.mark.parametrize(("says", "expected"), [(GUARD - 1, False), (GUARD, True)])
@pytest.mark.parametrize("words", [7_000, 8_000])
def test_the_providers_figure_decides(says: int, expected: bool, words: int) -> None:
    with session(says, words) as (counts, last):
        assert len(counts) == 1 and is_smaller(last) is expected
        asked = counts[0].json()
        assert set(asked) == {"model", "input", "tools"} and asked["input"][-1]["output"] == "wind " * words
        assert counts[0].header("authorization") == "Bearer sk-one"


@pytest.mark.parametrize("words", [300, 20_000])
def test_it_is_not_asked_where_its_answer_could_not_change_anything(words: int) -> None:
    with session(1, words) as (counts, last):
        assert counts == [] and is_smaller(last) is (words == 20_000)


def test_it_is_not_asked_unless_that_is_wanted() -> None:
    with session(1, 7_000, is_on=False) as (counts, _):
        assert counts == []


@pytest.mark.parametrize("fault", [error_reply(404, "no such path"), head_then_silence(), json_reply({})])
def test_without_a_figure_our_own_stands(fault: Action) -> None:
    with session(fault, 8_000) as (counts, last):
        assert len(counts) == 1 and is_smaller(last) is True
