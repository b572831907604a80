"""Usage and money: asked for unseen, read in every form, estimated where it is missing, priced as it is billed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from tests.support import builders, replies
from tests.support.records import Records
from tests.support.replies import DONE, chat_events, chunk, event, stream_reply
from tests.support.serve import Served, served
from tests.support.upstream import Action, Request, ScriptedUpstream

NUMBERS = count(1)
PRICED = {
    "window": 100_000, "cliff": 2_000, "input_price": 10.0, "cached_price": 1.0, "write_price": 10.0,
    "output_price": 40.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def up() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def proxy(up: ScriptedUpstream) -> Iterator[Served]:
    with served(up.base_url, models={"priced-*": PRICED}) as running:
        yield running


def ask(proxy: Served, **extra: Any) -> tuple[httpx.Response, str]:
    """One request of a conversation of its own."""
    body = builders.request([builders.user(f"talk {next(NUMBERS)}")], **extra)
    reply = httpx.post(f"{proxy.base_url}/chat/completions", json=body, timeout=20)
    return reply, reply.headers.get("x-undercliff-conversation", "")


def test_usge_01_the_chunk_that_only_we_asked_for(up: ScriptedUpstream, proxy: Served) -> None:
    """CLIENTS row 47 too: nobody who did not ask sees it, and it is recorded all the same."""
    with_usage = chat_events("so be it", prompt=321)
    without = [part for part in with_usage if b'"choices":[]' not in part]
    assert len(without) == len(with_usage) - 1
    for options, expected in (
        ({}, without),
        ({"stream_options": {"include_usage": False}}, without),
        ({"stream_options": {"include_usage": True}}, with_usage),
    ):
        up.enqueue(stream_reply([b"".join(with_usage)]))
        reply, conversation = ask(proxy, stream=True, **options)
        assert up.requests[-1].json()["stream_options"] == {"include_usage": True}
        assert reply.content == b"".join(expected)
        outcome = Records(proxy.db).outcome(conversation)
        assert (outcome.input, outcome.is_estimated) == (321, False)


def test_usge_01_other_stream_options_stay(up: ScriptedUpstream, proxy: Served) -> None:
    up.enqueue(replies.chat_stream("so"))
    ask(proxy, stream=True, stream_options={"include_obfuscation": False})
    assert up.requests[-1].json()["stream_options"] == {"include_obfuscation": False, "include_usage": True}


def test_no_usage_is_asked_of_a_reply_that_is_no_stream(up: ScriptedUpstream, proxy: Served) -> None:
    up.enqueue(replies.json_reply(replies.completion("so")))
    ask(proxy)
    assert "stream_options" not in up.requests[-1].json()


REFUSALS = [
    replies.error_reply(400, "Unrecognized request argument supplied: stream_options", param="stream_options"),
    replies.json_reply(
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs not allowed"}]},
        status=422,
    ),
    replies.error_reply(400, "include_usage: property is not supported"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_usge_03_a_provider_that_refuses_the_option(refusal: Action) -> None:
    with ScriptedUpstream() as up, served(up.base_url) as proxy:
        up.enqueue(refusal, replies.chat_stream("one", with_usage=False), replies.chat_stream("two", with_usage=False))
        first, conversation = ask(proxy, stream=True)
        assert first.status_code == 200 and first.content == b"".join(chat_events("one", with_usage=False))
        assert "stream_options" in up.requests[0].json()
        assert [len(up.requests), "stream_options" in up.requests[1].json()] == [2, False]
        outcome = Records(proxy.db).outcome(conversation)
        assert outcome.is_estimated and outcome.attempts == 2
        second, _ = ask(proxy, stream=True)
        assert second.status_code == 200
        assert len(up.requests) == 3 and "stream_options" not in up.requests[2].json()  # remembered


@pytest.mark.parametrize("message", ["temperature must be below 2", "stream_options and n do not go together"])
def test_usge_03_an_unrelated_refusal(message: str) -> None:
    """Relayed as it came. One that only mentions the option costs one resend, and teaches nothing."""
    refusal = replies.error_reply(400, message)
    with ScriptedUpstream(lambda _: refusal) as up, served(up.base_url) as proxy:
        reply, _ = ask(proxy, stream=True)
        assert reply.status_code == 400 and reply.json()["error"]["message"] == message
        assert len(up.requests) == (2 if "stream_options" in message else 1)
        up.enqueue(replies.chat_stream("fine"))
        ask(proxy, stream=True)
        assert "stream_options" in up.requests[-1].json()


def test_usge_05_the_last_report_wins(up: ScriptedUpstream, proxy: Served) -> None:
    pieces = [event(chunk({"content": f"{n}"}, usage=replies.usage(500, n))) for n in (12, 40, 90)]
    up.enqueue(stream_reply([*pieces, event(chunk({}, finish="stop")), DONE]))
    reply, conversation = ask(proxy, stream=True)
    assert reply.content.count(b"usage") == 3  # the provider's own chunks are no business of ours
    outcome = Records(proxy.db).outcome(conversation)
    assert (outcome.input, outcome.output) == (500, 90)


@pytest.mark.parametrize("stream", [True, False])
def test_usge_07_cached_tokens_are_a_part_of_the_input(up: ScriptedUpstream, proxy: Served, stream: bool) -> None:
    figures: dict[str, Any] = {"prompt": 1000, "output": 50, "cached": 800}
    whole = replies.chat_stream("x", **figures) if stream else replies.json_reply(replies.completion("x", **figures))
    up.enqueue(whole)
    _, conversation = ask(proxy, stream=stream, model="priced-1")
    outcome = Records(proxy.db).outcome(conversation)
    assert (outcome.input, outcome.cached, outcome.output) == (1000, 800, 50)
    assert outcome.cost == pytest.approx((200 * 10 + 800 * 1 + 50 * 40) / 1e6)


def test_usge_07_the_cliff_is_measured_on_the_whole_input(up: ScriptedUpstream, proxy: Served) -> None:
    """2,500 input tokens of which 2,000 are cached lie beyond a cliff at 2,000: all of them cost double."""
    up.enqueue(replies.json_reply(replies.completion("x", prompt=2500, output=50, cached=2000)))
    _, conversation = ask(proxy, model="priced-1")
    outcome = Records(proxy.db).outcome(conversation)
    assert outcome.cost == pytest.approx((500 * 20 + 2000 * 2 + 50 * 60) / 1e6)


# -- a provider that never reports -------------------------------------------------------------------


def run_silent_session(stop: int, *, window: int) -> tuple[list[Request], list[Any]]:
    """A streaming session of growing tool output at a provider that reports no usage."""
    messages = [builders.system(), builders.user("read every gauge")]
    conversation = ""
    with (
        ScriptedUpstream(lambda _: replies.chat_stream("noted", with_usage=False)) as up,
        served(up.base_url, models={"scripted-*": {"window": window}}) as proxy,
    ):
        for turn in range(stop):
            body = builders.request(messages, stream=True, tools=[builders.tool()])
            reply = httpx.post(f"{proxy.base_url}/chat/completions", json=body, timeout=20)
            assert reply.status_code == 200
            conversation = reply.headers["x-undercliff-conversation"]
            messages.append(builders.assistant("noted"))
            messages.append(builders.user(f"go on with {turn}"))
            messages += builders.steps(1, 6000, start=turn)
            messages.append(builders.assistant("read"))
            messages.append(builders.user(f"and now {turn}?"))
        records = Records(proxy.db)
        return up.requests, records.outcomes(conversation)


@pytest.mark.parametrize("window", [20_000])
def test_usge_08_an_estimate_is_flagged_and_acted_on(window: int) -> None:
    requests, outcomes = run_silent_session(24, window=window)
    assert len(outcomes) == 24
    assert all(outcome.is_estimated and outcome.input > 0 for outcome in outcomes)
    sizes = [len(request.body) for request in requests]
    # Some 2,000 tokens come with every turn: without help the last list would hold more than twice the window.
    assert max(sizes) / 4 < window
    assert len(requests) == 24  # nothing was refused and sent again


def test_usge_08_the_first_turn_never_compacts_on_an_estimate() -> None:
    """A list that our count calls too large goes out whole: only a bill, or the provider's refusal, says so."""
    messages = [builders.system(), builders.user("read"), *builders.steps(30, 6000), builders.user("so?")]
    body = builders.request(messages, stream=True)
    with (
        ScriptedUpstream(lambda _: replies.chat_stream("noted", with_usage=False)) as up,
        served(up.base_url, models={"scripted-*": {"window": 20_000}}) as proxy,
    ):
        httpx.post(f"{proxy.base_url}/chat/completions", json=body, timeout=20)
        assert up.requests[0].json()["messages"] == messages


def test_strm_06_a_missing_figure_calls_for_no_compaction() -> None:
    """A reply that broke off without usage is no bill: the next turn's list goes out whole."""
    messages = [builders.system(), builders.user("read"), *builders.steps(12, 6000), builders.user("so?")]
    with (
        ScriptedUpstream() as up,
        served(
            up.base_url,
            models={"scripted-*": {"window": 60_000, "compact_at": 20_000}},
            policy__options={"economics": False},  # what was seen once is shortened without any bill
        ) as proxy,
    ):
        url = f"{proxy.base_url}/chat/completions"
        up.enqueue(stream_reply([event(chunk({"content": "one"}))]), replies.chat_stream("two", prompt=30_000))
        up.enqueue(replies.chat_stream("three", prompt=15_000))
        for text in ("one", "two", "three"):
            reply = httpx.post(url, json=builders.request(messages, stream=True), timeout=20)
            sent = up.requests[-1].json()["messages"]
            # Only behind the first real figure does anything change.
            assert (sent == messages) == (text != "three")
            messages += [builders.assistant(text), builders.user("and?")]
        outcomes = Records(proxy.db).outcomes(reply.headers["x-undercliff-conversation"])
        assert [outcome.outcome for outcome in outcomes] == ["incomplete", "ok", "ok"]
