"""Many folds, hidden pairs and forks: after a kill and on a second replica, the very bytes of a proxy that went on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support import builders, replies
from tests.support.expanding import ITEM_ID, NAME, expand
from tests.support.records import Records
from tests.support.serve import Served, served
from tests.support.session import FOLDED, conversation, from_store, ok, strict, tokens_of
from tests.support.stores import Stores, stores
from tests.support.upstream import Action, Request, ScriptedUpstream

Message = builders.Message
MODELS = {"*": {"window": 4600}}

__all__ = ["stores"]  # the fixture


class Watch:
    """A client that watches gauges through whichever proxy it is given, in one list."""

    def __init__(self, up: ScriptedUpstream, *, beside: bool) -> None:
        self.up = up
        self.beside = beside
        self.messages: list[Message] = [builders.system(), builders.user("Watch the gauges. Never touch the sluice.")]
        self.name = ""

    def turn(self, proxy: Served, number: int) -> bytes:
        """One turn; returns what the provider got at last."""
        question = builders.user(builders.long_text(100 + number, 1500))
        step = builders.step(number, builders.long_text(number, 2000))
        # A client may put a call of its own making right behind the model's words.
        self.messages += [*step, question] if self.beside else [question, *step]
        return self.ask(proxy)

    def ask(self, proxy: Served) -> bytes:
        reply = ok(proxy, self.messages)
        self.name = conversation(reply)
        self.messages.append(reply.json()["choices"][0]["message"])
        return self.up.requests[-1].body

    def ids(self) -> list[str]:
        return [found.decode() for found in dict.fromkeys(ITEM_ID.findall(self.up.requests[-1].body))]


def asking(up: ScriptedUpstream, call: dict[str, Any]) -> Callable[[Request], Action]:
    """The next reply is this call; those after it are as ever."""

    def once(request: Request) -> Action:
        up.handler = strict
        return replies.json_reply(replies.completion(None, calls=[call], prompt=tokens_of(request.body)))

    return once


@contextmanager
def watching(stores: Stores, *, beside: bool, hidden: bool = False) -> Iterator[tuple[Watch, Served]]:
    with ScriptedUpstream(strict) as up, served(up.base_url, stores.place("a"), models=MODELS) as proxy:
        watch = Watch(up, beside=beside)
        for number in range(14):
            if hidden and number in (6, 13):
                up.handler = asking(up, expand(f"call_exp{number:05}", id=watch.ids()[0]))
            watch.turn(proxy, number)
        assert len(Records(stores.place("a")).folds(watch.name)) > 2 and FOLDED in up.requests[-1].body
        yield watch, proxy


BESIDE = pytest.mark.parametrize("beside", [False, True], ids=["asked", "beside"])


@BESIDE
@pytest.mark.parametrize("hidden", [False, True], ids=["plain", "hidden"])
def test_after_many_folds_a_restart_changes_no_byte(stores: Stores, beside: bool, hidden: bool) -> None:
    with watching(stores, beside=beside, hidden=hidden) as (watch, proxy):
        stores.copy("a", "b")
        messages = [*watch.messages]
        whole = [watch.turn(proxy, 14), watch.turn(proxy, 15)]
        if hidden:
            assert any(NAME.encode() in body for body in whole)
        watch.messages = messages
        with served(watch.up.base_url, stores.place("b"), models=MODELS) as again:
            killed = [watch.turn(again, 14)]
        with served(watch.up.base_url, stores.place("b"), models=MODELS) as again:
            killed.append(watch.turn(again, 15))
        assert killed == whole


@BESIDE
@pytest.mark.parametrize("hidden", [False, True], ids=["plain", "hidden"])
def test_a_fork_after_a_restart_starts_with_its_parents_window(stores: Stores, beside: bool, hidden: bool) -> None:
    with watching(stores, beside=beside, hidden=hidden) as (watch, proxy):
        stores.copy("a", "b")
        messages = watch.messages[:-1]
        watch.messages = [*messages, builders.assistant("an answer of the client's own"), builders.user("why?")]
        whole = watch.ask(proxy)
        watch.messages = [*messages, builders.assistant("an answer of the client's own"), builders.user("why?")]
        with served(watch.up.base_url, stores.place("b"), models=MODELS) as again:
            assert watch.ask(again) == whole
        assert FOLDED in whole


@pytest.mark.parametrize("hidden", [False, True], ids=["plain", "hidden"])
def test_two_replicas_in_turns_send_what_one_would(stores: Stores, hidden: bool) -> None:
    """Each request goes to the other process: what memory holds of the branch is older than what the file holds."""
    with watching(stores, beside=False, hidden=hidden) as (watch, proxy):
        stores.copy("a", "b")
        messages = [*watch.messages]
        with served(watch.up.base_url, stores.place("a"), models=MODELS) as other:
            mixed = [watch.turn((other, proxy)[number % 2], number) for number in range(14, 24)]
        watch.messages = messages
        with served(watch.up.base_url, stores.place("b"), models=MODELS) as one:
            assert mixed == [watch.turn(one, number) for number in range(14, 24)]
        folds = from_store(stores.place("a"), lambda store: store.folds(watch.name))
        assert len(folds) > 4
