"""When a conversation is compacted: what counts, whose bill counts, which limit counts, and what is not waited for."""

from __future__ import annotations

import threading

import pytest

from tests.integration.test_compaction import COMPACT_AT, GUARD, WINDOW, billing, folds, session, talk
from tests.integration.test_summaries import GOOD, agents, good, settled
from tests.integration.test_summaries import session as with_summaries
from tests.integration.test_summaries import talk as more
from tests.support import builders, replies
from tests.support.session import FOLDED, conversation, ok, sent, tokens_of
from tests.support.signals import Gate
from tests.support.upstream import Action


def test_cached_tokens_count() -> None:
    """A provider's cache makes tokens cheaper, not fewer."""
    with session(billing(4000)) as (up, proxy, messages):
        bill = replies.completion("noted", prompt=COMPACT_AT, cached=COMPACT_AT - 64)
        up.enqueue(replies.json_reply(bill))
        ok(proxy, talk(messages, 7))
        reply = ok(proxy, talk(messages, 1))
        assert FOLDED in up.requests[-1].body
        assert folds(proxy, conversation(reply))[0].figure == COMPACT_AT


@pytest.mark.parametrize("thought", ["", "The gauge at the outer mole was read before. " * 1000])
def test_reasoning_that_the_client_sends_back_counts(thought: str) -> None:
    """It is input like any other: forty thousand characters of it bring the guard, in the middle of a turn."""
    with session(billing(4000)) as (up, proxy, messages):
        step = builders.step(1, "ok")
        talk(messages, 7)
        up.enqueue(replies.json_reply(replies.completion(None, calls=step[0]["tool_calls"], prompt=4000)))
        ok(proxy, messages)
        if thought:
            step[0]["reasoning_content"] = thought
        messages += step
        ok(proxy, messages)
        assert (FOLDED in up.requests[-1].body) is bool(thought)
        assert sent(up)[-2:] == step


@pytest.mark.parametrize(("bill", "is_folded"), [(4409, False), (4410, True)])
def test_a_cliff_calls_for_it_long_before_the_window_does(bill: int, is_folded: bool) -> None:
    """0.735 of 6,000, of a window of 12,000."""
    models = {"*": {"window": WINDOW, "cliff": 6000}}
    with session(billing(bill), models=models) as (up, proxy, messages):
        ok(proxy, talk(messages, 7))
        ok(proxy, talk(messages, 1, 200))
        assert (FOLDED in up.requests[-1].body) is is_folded


def test_the_limit_that_an_error_names_wins() -> None:
    """Below a configured window, a cliff and a threshold: from then on, and for the thresholds too."""
    models = {"*": {"window": 60_000, "cliff": 40_000, "compact_at": 30_000}}
    with session(models=models) as (up, proxy, messages):
        ok(proxy, talk(messages, 4))
        up.enqueue(replies.overflow_reply(7000, 7400))
        name = conversation(ok(proxy, talk(messages, 9)))
        (first,) = folds(proxy, name)
        assert first.trigger == "overflow" or "overflow" in first.trigger
        while tokens_of(up.requests[-1].body) < 0.735 * 7000:
            assert len(folds(proxy, name)) == 1
            ok(proxy, talk(messages, 1, 800))
        ok(proxy, talk(messages, 1, 200))
        assert len(made := folds(proxy, name)) == 2
        assert 0.735 * 7000 <= made[-1].figure < 0.86 * 7000


def test_an_answer_that_names_no_bill_calls_for_nothing() -> None:
    """Our own count is only a guess: it leans to not compacting, until it is far over the guard."""

    def silent() -> Action:
        return replies.json_reply({"choices": [{"index": 0, "message": {"role": "assistant", "content": "noted"}}]})

    with session(lambda request: silent()) as (up, proxy, messages):
        ok(proxy, talk(messages, 5))
        ok(proxy, talk(messages, 1, 200))
        assert sent(up) == messages


def test_a_small_tail_of_a_great_bill_is_no_reason() -> None:
    """A client that cut its own list is billed for the old one: what goes out now is what counts."""
    with session(billing(GUARD + 900)) as (up, proxy, messages):
        ok(proxy, talk(messages, 7))
        short = [*messages[:2], builders.assistant("noted"), builders.user("start afresh")]
        ok(proxy, short)
        assert sent(up) == short


def test_the_reply_does_not_wait_for_the_summaries_and_the_next_turn_hardly() -> None:
    """A summarizer that takes its time: the reply is there, and the next turn goes on with the old window."""
    gate = Gate()
    with with_summaries(lambda record: Action((gate, *good(record).steps)), compaction__wait_s=0.2) as (
        up,
        proxy,
        messages,
        provider,
    ):
        name = conversation(ok(proxy, messages))  # it is here, the gate still shut
        up.received.wait_sync(2)
        ok(proxy, more(messages, 9))
        ok(proxy, more(messages, 1, 200))
        assert sent_by_agent(up) == messages and len(provider.asked) == 1 and not folds(proxy, name)
        gate.open()
        settled(proxy, name, 2)
        ok(proxy, more(messages, 1, 200))
        assert FOLDED in agents(up)[-1].body and GOOD.encode() in agents(up)[-1].body


def test_the_next_turn_waits_a_little_and_finds_them() -> None:
    gate = Gate()
    with with_summaries(lambda record: Action((gate, *good(record).steps)), compaction__wait_s=15.0) as (
        up,
        proxy,
        messages,
        provider,
    ):
        ok(proxy, messages)
        up.received.wait_sync(2)
        ok(proxy, more(messages, 9))
        assert len(provider.asked) == 1
        more(messages, 1, 200)
        turn = threading.Thread(target=ok, args=(proxy, messages))
        turn.start()
        turn.join(0.5)
        assert turn.is_alive()
        gate.open()
        turn.join(30)
        assert FOLDED in agents(up)[-1].body and GOOD.encode() in agents(up)[-1].body and provider.asked


def sent_by_agent(up: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = agents(up)[-1].json()["messages"]  # type: ignore[arg-type]
    return found
