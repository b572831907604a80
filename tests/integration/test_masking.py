"""What is masked, when, and with what in its place: seen through the provider's eyes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import pytest

from proxy.store.base import Store
from proxy.views import fetch_item, gather
from tests.support import builders
from tests.support.serve import Served, served
from tests.support.session import (
    EAGER,
    OMITTED,
    conversation,
    from_store,
    ok,
    sent,
    step_answer,
    strict,
    tokens_of,
)
from tests.support.upstream import ScriptedUpstream

NUMBERS = count(1)
Message = dict[str, Any]


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(strict) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url, policy__options=EAGER, window__never_mask=["AGENTS.md"]) as running:
        yield running


def user() -> Message:
    return builders.user(f"station {next(NUMBERS)}")


def second_look(proxy: Served, up: ScriptedUpstream, messages: list[Message]) -> list[Message]:
    """The list as the provider has it in the turn after the one that first carried it."""
    ok(proxy, messages)
    ok(proxy, [*messages, builders.assistant("noted"), builders.user("go on")])
    return sent(up)


def is_masked(message: Message) -> bool:
    return OMITTED.decode() in json.dumps(message["content"])


def item_of(message: Message) -> str:
    return str(message["content"].split("id ", 1)[1].split()[0].rstrip("]"))


TRACEBACK = (
    builders.long_text(1, 5800) + "\nTraceback (most recent call last):\n"
    '  File "tide.py", line 9, in <module>\nValueError: no such gauge\nexit status 1\n'
)


def test_mask_06_a_failure_keeps_its_closing_lines(proxy: Served, up: ScriptedUpstream) -> None:
    got = second_look(proxy, up, [user(), builders.step(1, "")[0], builders.result("call_0001", TRACEBACK)])
    assert is_masked(got[2]) and "failed" in got[2]["content"]
    assert "ValueError: no such gauge" in got[2]["content"] and "exit status 1" in got[2]["content"]
    shown = from_store(proxy.db, lambda store: fetch_item(store, item_of(got[2])))
    assert json.loads(shown.data)["content"] == TRACEBACK == shown.text


def test_mask_06_a_result_that_is_flagged(proxy: Served, up: ScriptedUpstream) -> None:
    text = builders.long_text(2, 6000)
    got = second_look(proxy, up, [user(), builders.step(2, "")[0], builders.result("call_0002", text, is_error=True)])
    assert is_masked(got[2]) and "failed" in got[2]["content"] and got[2]["is_error"] is True


def test_mask_08_the_first_sight_in_another_conversation_is_full(proxy: Served, up: ScriptedUpstream) -> None:
    text = builders.long_text(3, 20_000)
    reads = [user()]
    for number in range(3):
        reads += builders.step(number, text)
    second_look(proxy, up, reads)
    other = [user(), *builders.step(0, text)]
    ok(proxy, other)
    assert sent(up) == other


def test_mask_11_one_question_and_eighty_steps(up: ScriptedUpstream) -> None:
    """4 KB a step, a window of 20,000 tokens: never above it, few changes, no storm."""
    options = {"economics": False, "mask_at": 9000}
    with served(up.base_url, policy__options=options, models={"*": {"window": 20_000}}) as proxy:
        since, messages = len(up.requests), [builders.system(), user()]
        for number in range(80):
            step = builders.step(number, builders.long_text(number, 4000))
            up.enqueue(step_answer(step, tokens_of(up.requests[-1].body)))
            name = conversation(ok(proxy, messages))
            messages += step
        bodies = [request.body for request in up.requests[since:]]
        assert max(map(tokens_of, bodies)) < 20_000 < tokens_of(json.dumps(messages).encode())
        forms = [[is_masked(m) for m in json.loads(body)["messages"]] for body in bodies]
        changes = sum(new[: len(old)] != old for old, new in pairwise(forms))
        assert 2 <= changes <= 20
        assert len(from_store(proxy.db, lambda store: store.folds(name))) <= 4


def test_mask_12_the_newest_results_are_full_until_the_model_spoke(proxy: Served, up: ScriptedUpstream) -> None:
    calls = [builders.call(f"c{number}", what=f"{number}") for number in range(3)]
    results = [builders.result(f"c{number}", builders.long_text(number, 14_000)) for number in range(3)]
    messages = [user(), builders.assistant(None, calls), *results]
    ok(proxy, messages)
    assert sent(up) == messages
    again = [*messages, builders.user("are you there?")]
    ok(proxy, again)
    assert sent(up) == again
    ok(proxy, [*again, builders.assistant("noted"), builders.user("go on")])
    assert [is_masked(message) for message in sent(up)[2:5]] == [True] * 3


DATA_URL = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUg" * 9000
WHOLE = [
    DATA_URL,
    "see " + DATA_URL + " there",
    json.dumps({"rows": [{"gauge": number, "mm": number * 7} for number in range(400)]}),
    "diff --git a/x b/x\n@@ -1,3 +1,4 @@\n" + "+ line\n- line\n" * 400,
]


@pytest.mark.parametrize("text", WHOLE, ids=["data url", "in text", "json", "diff"])
def test_mask_13_whole_or_a_placeholder(proxy: Served, up: ScriptedUpstream, text: str) -> None:
    got = second_look(proxy, up, [user(), *builders.step(4, text)])
    assert got[2]["content"] == text or (is_masked(got[2]) and text[:40] not in got[2]["content"])


def test_mask_15_instructions_are_always_verbatim(proxy: Served, up: ScriptedUpstream) -> None:
    rules = builders.long_text(5, 9000)
    messages = [
        builders.system(rules),
        builders.system("short", role="developer"),
        user(),
        builders.assistant(None, [builders.call("r1", "read", path="docs/AGENTS.md")]),
        builders.result("r1", rules),
        *builders.step(5, builders.long_text(6, 9000)),
        builders.system(rules[::-1], role="developer"),
        builders.user("now?"),
    ]
    got = second_look(proxy, up, messages)
    assert is_masked(got[6])
    assert got[:6] + got[7:9] == messages[:6] + messages[7:9]


SIZES: list[tuple[Any, bool]] = [
    ("", False), ("x y z " * 83, False), ("x y z " * 83 + "x", False), ("x y z " * 83 + "xy", False),
    (" " * 600, False), ("a" * 520, True), (" " * 4000, True), ("\U0001f30a" * 600, True),
    (builders.long_text(7, 520), True),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shorter"), SIZES, ids=range(len(SIZES)))
def test_mask_17_only_when_it_is_shorter(proxy: Served, up: ScriptedUpstream, text: str, shorter: bool) -> None:
    start = [user(), builders.step(6, "")[0], builders.result("call_0006", text, name="look")]
    got = second_look(proxy, up, start)[2]
    if len(text) <= 500:
        assert got == start[2]
    if is_masked(got):
        assert shorter and f"{len(text):,} chars" in got["content"]
    assert {**got, "content": ""} == {**start[2], "content": ""}
    assert is_masked(got) is shorter


def test_mask_17_a_result_without_content(proxy: Served, up: ScriptedUpstream) -> None:
    lacking = {"role": "tool", "tool_call_id": "call_0006"}
    start = [user(), builders.step(6, "")[0], lacking]
    assert second_look(proxy, up, start)[2] == lacking


async def views(store: Store, name: str) -> list[list[str]]:
    shown = [await gather(store, name, view) for view in ("user", "model", "archive")]  # type: ignore[arg-type]
    return [[item.text for item in one.items] for one in shown]


def test_show_and_expand_bring_the_original_back(proxy: Served, up: ScriptedUpstream) -> None:
    text = builders.long_text(8, 7000)
    start = [user(), *builders.step(8, text)]
    got = second_look(proxy, up, start)
    name = conversation(ok(proxy, [*start, builders.assistant("noted"), builders.user("go on")]))
    user_view, model_view, archive = from_store(proxy.db, lambda store: views(store, name))
    assert text in user_view and text not in model_view and not archive
    assert any(OMITTED.decode() in one for one in model_view)
    shown = from_store(proxy.db, lambda store: fetch_item(store, item_of(got[2])))
    assert shown.data == builders.body_bytes(start[2])
