"""What is counted, end to end: pictures, odd tokens, definitions of tools and unknown models call for nothing wrong."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from proxy.store.base import Store
from tests.support import builders, replies
from tests.support.records import Records, eventually
from tests.support.serve import Served, served
from tests.support.session import NEVER, conversation, from_store, ok, tokens_of
from tests.support.upstream import Action, Request, ScriptedUpstream

NUMBERS = count(1)
SMALL = {"small-*": {"window": 30_000}, "roomy-*": {"window": 200_000}}


def flat(request: Request) -> Action:
    """Bills a picture as providers do: a flat figure, however long its base64 is."""
    prompt = 1_500 if b"image_url" in request.body else tokens_of(request.body)
    return replies.json_reply(replies.completion("noted", prompt=prompt))


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(flat) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url, models=SMALL, policy__options=NEVER) as running:
        yield running


def picture(megabytes: float) -> dict[str, Any]:
    data = base64.b64encode(bytes(range(256)) * int(megabytes * 3072)).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


@pytest.mark.parametrize("megabytes", [1.5, 4])
@pytest.mark.parametrize("role", ["user", "tool"])
def test_tokn_01_a_picture_calls_for_no_compaction_and_arrives_whole(
    proxy: Served, up: ScriptedUpstream, megabytes: float, role: str
) -> None:
    question = builders.user(f"what is at berth {next(NUMBERS)}?")
    shown = [{"type": "text", "text": "look at this"}, picture(megabytes)]
    messages = [question, {"role": "user", "content": shown}]
    if role == "tool":
        call, result = builders.step(1, "")
        messages = [question, call, {**result, "content": shown}]
    for _ in range(2):
        body = builders.body_bytes(builders.request(messages, model="small-1"))
        reply = ok(proxy, body)
        assert up.requests[-1].body == body  # a megabyte of base64 as text would be far above this model's window
        messages += [builders.assistant("noted"), builders.user("go on")]
    assert int(reply.headers["x-undercliff-saved-tokens"]) == 0
    assert Records(proxy.db).folds(conversation(reply)) == []


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>system\n<|im_end|>", "<|fim_prefix|>a<|fim_suffix|>b"])
def test_tokn_04_literals_of_special_tokens_are_text(proxy: Served, up: ScriptedUpstream, text: str) -> None:
    call, result = builders.step(1, f"{text} at gauge {next(NUMBERS)}")
    messages = [builders.user(f"{text} and berth {next(NUMBERS)}"), call, result]
    body = builders.body_bytes(builders.request(messages, model="small-1"))
    reply = ok(proxy, body)
    assert up.requests[-1].body == body
    stored = eventually(lambda: Records(proxy.db).raws(conversation(reply)))
    assert [builders.body_bytes(message) for message in messages] == stored[:3]
    served_tokens = entries_of(proxy, reply)
    assert served_tokens[0] > served_tokens[2] - 4 >= 6  # several plain tokens each, never one special token


def entries_of(proxy: Served, reply: Any) -> list[int]:
    async def read(store: Store) -> list[int]:
        manifest = await store.window(reply.headers["x-undercliff-window"])
        assert manifest is not None
        return [entry.tokens for entry in manifest.entries]

    return from_store(proxy.db, read)


def tools_of(tokens: int) -> list[dict[str, Any]]:
    """Definitions that take about so many tokens."""
    return [builders.tool(f"look{n}", builders.long_text(n, 1200)) for n in range(tokens // 480)]


def test_tokn_06_definitions_of_tools_take_room_from_the_messages(proxy: Served, up: ScriptedUpstream) -> None:
    """The same list is sent whole beside few tools, and made smaller beside 29k tokens of them."""
    sizes = []
    for tools in ([builders.tool()], tools_of(29_000)):
        messages = [builders.user(f"go through berth {next(NUMBERS)}"), *builders.steps(6, 3000)]
        for more in ([], builders.steps(2, 3000, start=10)):
            messages += more
            reply = ok(proxy, builders.body_bytes(builders.request(messages, model="small-1", tools=tools)))
        window = from_store(proxy.db, lambda store, r=reply: store.window(r.headers["x-undercliff-window"]))
        assert window is not None
        sizes.append((window.window.tokens_in, window.window.tokens_out))
    (few_in, few_out), (many_in, many_out) = sizes
    assert few_in == few_out
    assert many_in > few_in + 20_000
    assert many_out < many_in


@pytest.mark.parametrize("model", ["", "nobody-knows-this", "gpt-5.4-of-ours:nightly", "名前", "a" * 300])
def test_tokn_08_an_unknown_model_is_served_with_the_default_limits(
    proxy: Served, up: ScriptedUpstream, model: str
) -> None:
    messages = [builders.user(f"berth {next(NUMBERS)}"), *builders.steps(3, 3000)]
    body = builders.body_bytes(builders.request(messages, model=model))
    ok(proxy, body, headers={"anthropic-beta": "context-1m-2025-08-07"})
    assert up.requests[-1].body == body


def test_tokn_08_limits_are_set_by_pattern(proxy: Served, up: ScriptedUpstream) -> None:
    sizes = {}
    for model in ("small-x", "roomy-x"):
        messages = [builders.user(f"berth {next(NUMBERS)}"), *builders.steps(30, 6000)]
        ok(proxy, builders.body_bytes(builders.request(messages, model=model)))
        messages += [builders.assistant("noted"), builders.user("go on")]
        body = builders.body_bytes(builders.request(messages, model=model))
        ok(proxy, body)
        sizes[model] = len(up.requests[-1].body) / len(body)
    assert sizes["small-x"] < 0.8
    assert sizes["roomy-x"] == 1.0
