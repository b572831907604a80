"""Compaction under hostile circumstances: a stop in the middle of a summary, secrets in one, two clients at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.integration.test_compaction import COMPACT_AT, billing, folds, session, talk, texts_of
from tests.integration.test_summaries import WINDOW, Provider, agents, good, settled
from tests.integration.test_summaries import session as with_summaries
from tests.integration.test_summaries import talk as more
from tests.support import builders, replies
from tests.support.serve import served
from tests.support.session import FOLDED, NEVER, conversation, from_store, ok
from tests.support.upstream import Action, Hang, ScriptedUpstream


def test_a_stop_while_a_summarizer_hangs_gives_its_claim_back(tmp_path: Path) -> None:
    """It hangs for longer than the grace of a shutdown: nothing is flagged, and the next process can begin at once."""
    settings: dict[str, Any] = {
        "policy__options": NEVER,
        "models": {"*": {"window": WINDOW}},
        "compaction__summarizer": "upstream",
        "server__shutdown_grace_s": 1.0,
    }
    provider = Provider(lambda record: Action((Hang(),)))
    messages = more([builders.system(), builders.user("station stop"), *builders.step(1, "ok")], 52)
    with ScriptedUpstream(provider) as up:
        with served(up.base_url, tmp_path / "one.db", **settings) as proxy:
            name = conversation(ok(proxy, messages))
            up.received.wait_sync(2)
            started = time.monotonic()
        assert time.monotonic() - started < 30
        claim = from_store(tmp_path / "one.db", lambda store: store.claim(f"summaries:{name}"))
        assert claim is not None and claim[1] <= time.time()
        provider.write = good
        with served(up.base_url, tmp_path / "one.db", **settings) as proxy:
            assert conversation(ok(proxy, more(messages, 1, 200))) == name
            assert {call.outcome for call in settled(proxy, name, 2)} == {"ok"}


def test_a_secret_in_a_summary_is_redacted_where_that_is_asked_for() -> None:
    secret = "sk-proj-" + "a1B2" * 10

    def leak(record: str) -> Action:
        return replies.json_reply(replies.completion(f"The key in use is {secret}.", prompt=900))

    with with_summaries(leak, store__redact=True) as (up, proxy, messages, _):
        name = conversation(ok(proxy, messages))
        settled(proxy, name, 2)
        ok(proxy, more(messages, 9))
        ok(proxy, more(messages, 1, 200))
        body = agents(up)[-1].body
        assert FOLDED in body and b"The key in use is" in body and secret.encode() not in body


def test_two_clients_go_on_from_one_conversation_at_once() -> None:
    """Both over the threshold, with different words: what is folded for one is a view of its own."""
    with session(billing(COMPACT_AT - 1, COMPACT_AT, 4000)) as (up, proxy, messages):
        ok(proxy, talk(messages, 7))
        name = conversation(ok(proxy, talk(messages, 1)))
        both = [[*messages, builders.assistant("noted"), builders.user(f"way {number}")] for number in range(2)]
        with ThreadPoolExecutor(2) as pool:
            assert {conversation(reply) for reply in pool.map(lambda one: ok(proxy, one), both)} == {name}
        made = folds(proxy, name)
        assert 1 <= len({fold.branch for fold in made}) == len(made) <= 2
        views = [texts_of(proxy, fold.branch, summarized=False) for fold in made]
        for request in up.requests[-2:]:
            window = request.json()["messages"]
            if FOLDED in request.body:
                texts = ["C" if FOLDED.decode() in m["content"] else m["content"] for m in window]
                assert [*texts, "noted"] in views
            else:  # a fork goes by its own size: the bill was for another list
                assert window in both
        assert sum(FOLDED in request.body for request in up.requests[-2:]) == len(made)
