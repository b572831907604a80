"""Compaction and what must never be lost by it: rules, coverage, the client's own figures, answers without a store."""

from __future__ import annotations

import json

import httpx
import pytest

from proxy.core.records import Batch
from tests.integration.test_compaction import COMPACT_AT, billing, folds, session, talk
from tests.integration.test_summaries import Provider, settled
from tests.integration.test_summaries import session as with_summaries
from tests.support import builders, replies
from tests.support.flaky_store import FlakyStores
from tests.support.session import FOLDED, conversation, from_store, ok, sent
from tests.support.upstream import Action

RULES = [
    "Never touch db/migrations.",
    "Ändere niemals die Datei pegel.toml.",
    "You must not restart the sluice server under any circumstances.",
]


def test_comp_09_rules_stay_verbatim_in_the_users_role() -> None:
    """In the first message, in the seventh, in another language, and inside a long one; after every compaction."""
    with session(billing(COMPACT_AT - 1, COMPACT_AT, 4000, COMPACT_AT, 4000)) as (up, proxy, messages):
        messages[1]["content"] += f" {RULES[0]}"
        talk(messages, 2)
        messages += [builders.assistant("noted"), builders.user(f"Gut so. {RULES[1]}")]
        long = builders.long_text(990_001, 900)
        messages += [builders.assistant("noted"), builders.user(f"{long}\n{RULES[2]}\n{long}")]
        name = conversation(ok(proxy, talk(messages, 4)))
        seen = 0
        for _ in range(8):
            ok(proxy, talk(messages, 1, 1200))
            if FOLDED in up.requests[-1].body:
                seen += 1
                said = "\n".join(m["content"] for m in sent(up) if m["role"] == "user")
                assert all(rule in said for rule in RULES)
                assert not any(rule in m["content"] for m in sent(up) for rule in RULES if m["role"] != "user")
        assert seen and len(folds(proxy, name)) >= 2


def test_comp_05_every_archived_item_was_in_a_good_call_or_in_the_rules_digest() -> None:
    """The summarizer refuses long inputs: what it gets is cut to segments, and coverage says who stands for what."""

    def write(record: str) -> Action:
        if len(record) > 30_000:
            return replies.error_reply(400, "too long")
        return replies.json_reply(replies.completion("Gauges were read.", prompt=len(record) // 4))

    with with_summaries(write) as (_, proxy, messages, provider):
        name = conversation(ok(proxy, messages))
        assert {call.outcome for call in settled(proxy, name, 2)} == {"ok"}
        for _ in range(3):
            ok(proxy, talk(messages, 4, 2000))
        made = folds(proxy, name)
        assert made and made[-1].told >= 2 and isinstance(provider, Provider)
        item = made[-1].summary
        covered = from_store(proxy.db, lambda store: store.coverage(name, item))
        assert len(covered) == made[-1].covered
        rows = from_store(proxy.db, lambda store: store.items(name, covered))
        texts = [row.row.text for row in rows]
        assert len(texts) == len(covered)
        given = "".join(provider.records)
        left = [text for text in texts if text not in given]
        # Only of the segment that is still open: the rules tell of it, and the text itself stays in the store.
        assert len(left) <= 12


@pytest.mark.slow
def test_comp_21_a_raw_list_of_40_megabytes() -> None:
    """It grows and grows, little of it is billed: the client gets the provider's figures, and the operator the size."""
    with session(billing(5000), models={"*": {"window": 200_000}}) as (up, proxy, messages):
        for number in range(4):
            messages += builders.steps(5, 2_100_000, start=5 * number)
            body = builders.body_bytes(builders.request(messages))
            reply = httpx.post(f"{proxy.base_url}/chat/completions", content=body, timeout=300)
            assert reply.json()["usage"] == replies.usage(5000)
        exchanges = from_store(proxy.db, lambda store: store.exchanges(conversation(reply)))
        assert max(exchange.request_bytes for exchange, _ in exchanges) > 40_000_000
        assert len(up.requests) == 4 and len(up.requests[-1].body) < 15_000_000


def test_stor_06_the_disk_is_full_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go on with what is in memory, folds too; health says so; later rows are whole again."""
    stores = FlakyStores()
    monkeypatch.setattr("proxy.building.open_store", stores)
    with session(billing(COMPACT_AT - 1, COMPACT_AT, 4000)) as (up, proxy, messages):
        ok(proxy, talk(messages, 6))
        ok(proxy, talk(messages, 1))

        def is_full(batch: Batch) -> bool:
            return True

        stores.last.loses = is_full
        name = conversation(ok(proxy, talk(messages, 1)))
        assert FOLDED in up.requests[-1].body and stores.last.lost
        assert not folds(proxy, name)
        stores.last.loses = lambda batch: False
        ok(proxy, talk(messages, 1, 200))
        assert FOLDED in up.requests[-1].body
        made = folds(proxy, name)
        assert len(made) == 1
        covered = from_store(proxy.db, lambda store: store.coverage(name, made[0].summary))
        assert len(covered) == made[0].covered
        rows = from_store(proxy.db, lambda store: store.items(name, covered))
        assert len(rows) == len(covered)
        branch = made[0].branch
        view = from_store(proxy.db, lambda store: store.view(branch, summarized=False))
        window = [m["content"] for m in json.loads(up.requests[-1].body)["messages"]]
        assert len(view) == len(window) + 1
