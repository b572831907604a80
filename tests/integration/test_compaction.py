"""Compaction on what the provider billed: between turns, rarely inside one, never on a guess; what stands after it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from proxy.core.records import FoldRow
from proxy.store.base import Store
from proxy.views import find_window, gather, render_window
from tests.support import builders, replies
from tests.support.serve import Served, served
from tests.support.session import (
    FOLDED,
    NEVER,
    conversation,
    from_store,
    ok,
    raw_messages,
    sent,
    step_answer,
    strict,
    tokens_of,
)
from tests.support.upstream import Action, Request, ScriptedUpstream

NUMBERS = count(1)
WINDOW = 12_000
COMPACT_AT = int(0.735 * WINDOW)
GUARD = int(0.86 * WINDOW)
Message = dict[str, Any]


@contextmanager
def session(
    answer: Callable[[Request], Action] = strict, **settings: Any
) -> Iterator[tuple[ScriptedUpstream, Served, list[Message]]]:
    settings = {"policy__options": NEVER, "models": {"*": {"window": WINDOW}}, **settings}
    with ScriptedUpstream(answer) as up, served(up.base_url, **settings) as proxy:
        yield up, proxy, [builders.system(), builders.user(f"station {next(NUMBERS)}")]


def billing(*figures: int) -> Callable[[Request], Action]:
    """A provider that bills these figures in turn, the last one for ever."""
    bills = list(figures)

    def answer(request: Request) -> Action:
        bill = bills.pop(0) if len(bills) > 1 else bills[0]
        return replies.json_reply(replies.completion("noted", prompt=bill))

    return answer


def talk(messages: list[Message], turns: int, size: int = 2000) -> list[Message]:
    """So many more turns that nothing but a fold makes smaller."""
    for _ in range(turns):
        number = next(NUMBERS)
        messages += [builders.assistant("noted"), builders.user(builders.long_text(number, size))]
    return messages


def folds(proxy: Served, name: str) -> list[FoldRow]:
    return from_store(proxy.db, lambda store: store.folds(name))


def test_a_bill_over_the_threshold_compacts_the_next_turn() -> None:
    with session(billing(COMPACT_AT - 1, COMPACT_AT, 4000)) as (up, proxy, messages):
        ok(proxy, talk(messages, 6))
        ok(proxy, talk(messages, 1))
        assert FOLDED not in up.requests[-1].body  # one token below: not yet
        reply = ok(proxy, talk(messages, 1))
        assert FOLDED in up.requests[-1].body
        (fold,) = folds(proxy, conversation(reply))
        assert fold.figure == COMPACT_AT and fold.tokens_after < fold.tokens_before


def test_inside_a_turn_only_the_guard_acts() -> None:
    """A result is no new turn: over the threshold nothing happens, over the guard it does."""
    with session(billing(COMPACT_AT + 50, GUARD, 4000)) as (up, proxy, messages):
        step = builders.step(1, "ok")
        talk(messages, 6)
        up.enqueue(replies.json_reply(replies.completion(None, calls=step[0]["tool_calls"], prompt=COMPACT_AT + 50)))
        ok(proxy, messages)
        messages += step
        second = builders.step(2, "ok")
        up.enqueue(replies.json_reply(replies.completion(None, calls=second[0]["tool_calls"], prompt=GUARD)))
        ok(proxy, messages)
        assert FOLDED not in up.requests[-1].body
        messages += second
        reply = ok(proxy, messages)
        assert FOLDED in up.requests[-1].body and sent(up)[-2:] == second
        assert len(folds(proxy, conversation(reply))) == 1


@pytest.mark.parametrize("size", [2000, 8000])
def test_the_first_turn_is_never_compacted(size: int) -> None:
    """However large it is: there is no bill yet, and no model has seen it."""
    with session(billing(4000)) as (up, proxy, messages):
        talk(messages, 12, size)
        ok(proxy, messages)
        assert sent(up) == messages


def test_comp_02_a_bill_is_not_used_twice() -> None:
    """After the fold the old figure is history: two more requests, and the client's raw list, bring no second one."""
    with session(billing(COMPACT_AT - 1, COMPACT_AT + 500, 5000)) as (up, proxy, messages):
        ok(proxy, talk(messages, 6))
        ok(proxy, talk(messages, 1))
        up.enqueue(
            replies.json_reply({"choices": [{"index": 0, "message": {"role": "assistant", "content": "noted"}}]})
        )
        ok(proxy, talk(messages, 1, 200))
        assert FOLDED in up.requests[-1].body
        window = raw_messages(up.requests[-1].body)
        for _ in range(2):
            reply = ok(proxy, talk(messages, 1, 200))
            assert raw_messages(up.requests[-1].body)[: len(window)] == window
        assert len(folds(proxy, conversation(reply))) == 1


def test_comp_01_what_cannot_be_reached_is_tried_once(capfd: pytest.CaptureFixture[str]) -> None:
    """System message and tools alone are over the threshold."""
    with session(billing(COMPACT_AT + 1000)) as (up, proxy, messages):
        messages[0] = builders.system(builders.long_text(1, 36_000))
        for _ in range(20):
            messages += [builders.assistant("noted"), builders.user(f"and {next(NUMBERS)}?")]
            reply = ok(proxy, messages)
        assert len(up.requests) == 20 and sent(up) == messages
        assert not folds(proxy, conversation(reply))
    assert capfd.readouterr().err.count("compaction_ineffective") <= 2


def test_comp_18_a_fold_that_saves_nothing_is_dropped() -> None:
    with session(billing(COMPACT_AT + 1000)) as (up, proxy, messages):
        for _ in range(6):
            messages += [builders.assistant("noted"), builders.user(f"{next(NUMBERS)}?")]
            reply = ok(proxy, messages)
            assert sent(up) == messages
        assert not folds(proxy, conversation(reply))


def test_comp_10_unanswered_messages_stay_verbatim_at_the_end() -> None:
    with session(billing(COMPACT_AT + 1000)) as (up, proxy, messages):
        ok(proxy, talk(messages, 7))
        pending = [builders.user(builders.long_text(next(NUMBERS), 1500)) for _ in range(3)]
        messages += [builders.assistant("noted"), *pending]
        ok(proxy, messages)
        assert FOLDED in up.requests[-1].body
        assert sent(up)[-3:] == pending


def test_comp_11_and_13_a_valid_shape_after_every_fold() -> None:
    """A tool-heavy tail, folded again and again: one system message, a user message, the client's last at the end."""

    def one_system(request: Request) -> Action:
        roles = [message["role"] for message in request.json()["messages"]]
        if roles.count("system") != 1 or roles[0] != "system":
            return replies.error_reply(400, "only one system message, at the start")
        return strict(request)

    with session(one_system, policy__options={"economics": False}) as (up, proxy, messages):
        for _ in range(40):
            number = next(NUMBERS)
            text = builders.long_text(number, 1500)
            step = [builders.assistant(text, [builders.call(f"c{number}")]), builders.result(f"c{number}", text)]
            up.enqueue(strict_step(step, tokens_of(up.requests[-1].body) if up.requests else 100))
            ok(proxy, messages)
            messages += step
            got = sent(up)
            assert got[0] == messages[0] and got[1] == messages[1] and got[-1] in messages
            assert any(message["role"] == "user" for message in got)
        reply = ok(proxy, messages)
        assert sent(up)[-1] == messages[-1]
        assert len(folds(proxy, conversation(reply))) >= 2
        assert max(tokens_of(request.body) for request in up.requests) < WINDOW


def strict_step(step: list[Message], bill: int) -> Action:
    text, calls = step[0]["content"], step[0]["tool_calls"]
    return replies.json_reply(replies.completion(text, calls=calls, prompt=bill))


def test_comp_21_the_raw_list_may_grow_without_end() -> None:
    """10 MB from the client, little billed: it goes on, and the figures are the provider's own."""
    with session(billing(5000), models={"*": {"window": 200_000}}) as (_, proxy, messages):
        ok(proxy, talk(messages, 2))
        messages += [builders.assistant("noted"), builders.user("gauge " * 1_700_000)]
        reply = ok(proxy, messages)
        assert reply.json()["usage"] == replies.usage(5000)


def test_conv_03_sub_agents_and_side_calls_call_for_nothing() -> None:
    """A sub-agent billed far over the threshold: its parent is left alone, and gets no word of it."""
    with session(billing(4000)) as (up, proxy, messages):
        name = conversation(ok(proxy, talk(messages, 8)))
        sub = [builders.system("You search."), builders.user("find the sluice")]
        up.enqueue(replies.json_reply(replies.completion("found", prompt=250_000)))
        head = {"x-session-id": "s2", "x-parent-session-id": "s1"}
        other = conversation(ok(proxy, sub, headers=head))
        sub += [builders.assistant("found"), builders.user("sure?")]
        ok(proxy, sub, headers=head)
        assert FOLDED not in up.requests[-1].body
        title = [builders.system("Write a title."), *messages[1:3], builders.user("title, please")]
        up.enqueue(replies.json_reply(replies.completion("Tides", prompt=250_000)))
        ok(proxy, title, tools=False)
        reply = ok(proxy, talk(messages, 1))
        assert sent(up) == messages
        assert conversation(reply) == name != other
        assert not folds(proxy, name) and not folds(proxy, other)


def texts_of(proxy: Served, branch: str, *, summarized: bool) -> list[str]:
    rows = from_store(proxy.db, lambda store: store.view(branch, summarized=summarized))
    return ["C" if row.row.kind == "summary" else row.row.text for row in rows]


def test_one_flag_two_views_over_http() -> None:
    """What the model sees after each compaction is what the view without the flag holds; the archive has the rest."""
    with session(billing(COMPACT_AT - 1, COMPACT_AT, 4000, COMPACT_AT, 4000)) as (up, proxy, messages):
        name = conversation(ok(proxy, talk(messages, 7)))
        ok(proxy, talk(messages, 1))
        branch = from_store(proxy.db, lambda store: store.branches(name))[0].id
        for round_number in (1, 2):
            open_before, archive_before = (texts_of(proxy, branch, summarized=flag) for flag in (False, True))
            messages += [builders.assistant("noted"), builders.user(f"turn {next(NUMBERS)}")]
            ok(proxy, messages)
            assert len(folds(proxy, name)) == round_number
            window = ["C" if FOLDED.decode() in m["content"] else m["content"] for m in sent(up)]
            view = texts_of(proxy, branch, summarized=False)
            # The model's view is the window that was sent, and the reply to it.
            assert view == [*window, "noted"] and window.count("C") == 1
            archive = texts_of(proxy, branch, summarized=True)
            assert archive == [*archive_before, *open_before, messages[-1]["content"]]
            tail = from_store(proxy.db, lambda store: store.view(branch, summarized=False))
            again = [row.row for row in tail if row.row.kind != "summary"][:-1]  # the last one is the new reply
            assert all(row.origin == row.id for row in again)
            ok(proxy, talk(messages, 6))
        assert "C" in texts_of(proxy, branch, summarized=True)
        user = from_store(proxy.db, lambda store: gather(store, name, "user"))
        shown = [item.text for item in user.items if item.kind != "summary" and item.role == "user"]
        assert shown == [m["content"] for m in messages if m["role"] == "user"]
        found = from_store(proxy.db, lambda store: store.search(messages[5]["content"][:30], conversation=name))
        assert len({hit.row.id for hit, _ in found}) == len(found)


def test_conv_04_an_edited_past_gets_no_old_summary() -> None:
    """40 messages, compacted; the client comes back with the 10th changed and the rest gone."""
    with session(billing(COMPACT_AT - 1, COMPACT_AT - 1, COMPACT_AT, 4000)) as (up, proxy, messages):
        head = {"x-session-id": f"tides-{next(NUMBERS)}"}
        call = f"call_{secrets.token_hex(12)}"
        step = [builders.assistant(None, [builders.call(call, what="mole")]), builders.result(call, "17 mm")]
        up.enqueue(step_answer(step))
        ok(proxy, messages, headers=head)
        messages += step
        name = conversation(ok(proxy, talk(messages, 15, 600), headers=head))
        ok(proxy, talk(messages, 3, 600), headers=head)
        ok(proxy, talk(messages, 1, 600), headers=head)
        ok(proxy, talk(messages, 1, 600), headers=head)
        assert FOLDED in up.requests[-1].body
        fork = [*messages[:9], builders.user("another past")]
        reply = ok(proxy, fork, headers=head)
        assert sent(up) == fork and FOLDED not in up.requests[-1].body
        branches = from_store(proxy.db, lambda store: store.branches(conversation(reply)))
        if conversation(reply) == name:
            assert len(branches) == 2
            edited = texts_of(proxy, branches[1].id, summarized=False)
            said = [m["content"] for m in fork if m["content"]]
            assert [text for text in edited if not text.startswith("look(")] == [*said, "noted"]
            assert texts_of(proxy, branches[0].id, summarized=True)
        # A fork behind the compacted region goes on with its summary, and has a view of its own.
        late = [*messages[:-1], builders.user("another present")]
        ok(proxy, late, headers=head)
        assert FOLDED in up.requests[-1].body
        made = folds(proxy, name)
        by_fork = [fold.trigger.startswith("with the fork: ") for fold in made]
        assert by_fork[-1] and not any(by_fork[:-1]) and made[-1].branch not in {fold.branch for fold in made[:-1]}
        own = texts_of(proxy, made[-1].branch, summarized=False)
        window = ["C" if FOLDED.decode() in m["content"] else m["content"] for m in sent(up) if m["content"]]
        assert [text for text in own if not text.startswith("look(")] == [*window, "noted"]


async def all_windows(store: Store, name: str) -> list[tuple[str, int, bytes]]:
    out = []
    for window in await store.windows(name):
        manifest = await find_window(store, window)
        out.append((window, manifest.window.attempt, await render_window(store, manifest)))
    return out


def test_every_window_renders_to_the_bytes_that_were_received() -> None:
    """A session with masks, folds, a streamed turn and one retry after an overflow."""
    options = {"economics": False, "mask_at": 4000, "min_batch": 500}
    with session(policy__options=options) as (up, proxy, messages):
        for number in range(14):
            messages.append(builders.user(builders.long_text(next(NUMBERS), 2500)))
            step = builders.step(number, builders.long_text(number, 3000 if number % 2 else 300))
            up.enqueue(step_answer(step, tokens_of(up.requests[-1].body) if up.requests else 100))
            ok(proxy, messages)
            messages += step
            if number == 9:
                up.enqueue(replies.overflow_reply(7000, 9000))
            reply = ok(proxy, messages, stream=number % 3 == 0)
            messages.append(builders.assistant("noted"))
        name = conversation(reply)
        assert len(up.requests) == 2 * 14 + 1
        rendered = from_store(proxy.db, lambda store: all_windows(store, name))
        assert [attempt for _, attempt, _ in rendered].count(2) == 1
        assert [body for _, _, body in rendered] == [request.body for request in up.requests]
        assert folds(proxy, name)
        model = from_store(proxy.db, lambda store: gather(store, name, "model"))
        archive = from_store(proxy.db, lambda store: gather(store, name, "archive"))
        user = from_store(proxy.db, lambda store: gather(store, name, "user"))
        assert archive.items and all(item.is_summarized for item in archive.items)
        assert not any(item.is_summarized for item in model.items)
        texts = {item.text for item in user.items}
        assert {message["content"] for message in messages if message["content"]} <= texts
        window = json.loads(rendered[-1][2])["messages"]
        shown = [item.text for item in model.items]
        assert [text for message in window if (text := message["content"]) not in shown and text] == []
