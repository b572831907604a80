"""Windows for a budget: what the manifest says, the user's rules, a conversation that the proxy wrote, growth."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx

from policies.selector import Selector
from proxy import open_store
from proxy.library.asking import Ask, Asker, Watched
from proxy.library.reading import read_past, resolve
from proxy.library.window import Window, WindowManifest
from proxy.tokenizer import Tokenizer
from tests.support import builders, replies
from tests.support.provider_count import provider_count
from tests.support.serve import served
from tests.support.session import conversation as conversation_of
from tests.support.session import ok, strict
from tests.support.upstream import Action, Request, ScriptedUpstream


def test_every_item_has_a_place_and_a_reason(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("system", "Be brief.")
        store.add("user", "Sort the harbour.")
        for step in range(60):
            store.add("tool_result", f"berth {step} of quay_{step % 7}\n" * 25, source=f"look {step}", tool="bash")
        window = store.context_get(3_000, model="gpt-5")
    manifest = window.manifest
    assert isinstance(window, Window) and isinstance(manifest, WindowManifest)
    originals = [entry for entry in manifest.entries if entry.kind != "summary"]
    assert len(originals) == 2 + 2 * 60
    assert all(entry.reason for entry in originals)
    assert {entry.place for entry in manifest.entries} >= {"pinned", "recent", "summary"}
    assert sum(entry.tokens for entry in manifest.entries) <= manifest.used <= 3_000 < manifest.tokens_in
    assert len(window.items) == sum(entry.form != "folded" for entry in manifest.entries)
    assert json.loads(json.dumps(window.items)) == list(window.items)


def test_rules_of_folded_messages_stand_word_for_word_with_their_message(tmp_path: Path) -> None:
    """Point 12: in later messages, in other languages, inside long ones."""
    rules = ["Never touch db/migrations.", "Bitte niemals den Hafen löschen.", "絶対にmasterへpushしないこと。"]
    with open_store(tmp_path / "x.db", policy="last_n") as store:
        store.add("user", "Start.")
        ids = []
        for number, rule in enumerate(rules):
            ids.append(store.add("user", f"{'The quay is grey. ' * 60}{rule} {'The sea is wide. ' * 60}"))
            for step in range(10):
                store.add("tool_result", f"step {number}-{step}\n" * 60, source=f"s {number} {step}", tool="bash")
        window = store.context_get(2_500, model="gpt-5")
        said = [str(item.get("content")) for item in window.items if item["role"] == "user"]
        for rule, id in zip(rules, ids, strict=True):
            assert any(f'- "{rule}" (message {id})' in text for text in said), rule
        assert provider_count(window.items) <= 2_500


def test_a_conversation_of_the_proxy_can_be_asked_here(tmp_path: Path) -> None:
    db = tmp_path / "shared.db"
    messages = [builders.system("Be brief."), builders.user("Never touch db/migrations.")]
    with ScriptedUpstream(strict) as up, served(up.base_url, db=db) as proxy:
        for step in range(12):
            messages += builders.steps(1, 1_500, start=step)
            reply = ok(proxy, messages)
    name = conversation_of(reply)
    with open_store(db) as store:
        whole = store.context_get(100_000, model="gpt-5", conversation=name)
        assert [item["role"] for item in whole.items[:2]] == ["system", "user"]
        assert whole.items[: len(messages)] == tuple(messages)
        small = store.context_get(2_000, model="gpt-5")
        assert small.manifest.conversation == name and provider_count(small.items) <= 2_000
        assert "Never touch db/migrations." in str(small.items)
        result = next(entry for entry in whole.manifest.entries if entry.kind == "tool_result")
        assert store.expand(result.id) == messages[3]["content"]
        store.pin(result.id)
        assert result.id in [
            e.id for e in store.context_get(2_500, model="gpt-5").manifest.entries if e.place == "pinned"
        ]


def test_a_responses_conversation_comes_back_as_its_own_items(tmp_path: Path) -> None:
    def answer(_: Request) -> Action:
        text = {"type": "output_text", "text": "noted", "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        usage = {"input_tokens": 100, "output_tokens": 3, "total_tokens": 103}
        made = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [message]}
        return replies.json_reply({**made, "usage": usage})

    given: list[dict[str, object]] = [{"role": "user", "content": "Go. Never touch db/migrations."}]
    for step in range(14):
        call = {"type": "function_call", "call_id": f"call_q{step}Zx81{step}", "name": "look"}
        given.append({**call, "arguments": json.dumps({"path": f"quay_{step}"})})
        output = f"line {step} of it\n" * 200
        given.append({"type": "function_call_output", "call_id": call["call_id"], "output": output})
    with ScriptedUpstream(answer) as up, served(up.base_url, db=tmp_path / "x.db") as proxy:
        body = {"model": "m", "input": given}
        assert httpx.post(f"{proxy.base_url}/responses", json=body, timeout=30).status_code == 200
    with open_store(tmp_path / "x.db") as store:
        assert store.context_get(100_000, model="m").items[: len(given)] == tuple(given)
        window = store.context_get(3_000, model="m")
        assert window.items[0] == given[0] and window.manifest.used <= 3_000
        calls = [item["call_id"] for item in window.items if item.get("type") == "function_call"]
        assert calls and calls == [item["call_id"] for item in window.items if "output" in item]


def test_lines_are_paid_for_once_and_references_lead_to_what_is_there(tmp_path: Path) -> None:
    """MASK-08: a file read three times, the first reading folded away; another conversation is no copy."""
    text = "\n".join(f"def quay_{n}(ship): return moor(ship, {n * 7919})" for n in range(200))
    with open_store(tmp_path / "x.db") as store:
        store.add("file_read", text, source="quay.py", conversation="other")
        store.add("user", "Go.")
        reads = []
        for step in range(3):
            reads.append(store.add("file_read", text, source="quay.py"))
            for other in range(6):
                words = "\n".join(f"tide {step}.{other}.{n} stands at {(n * 977 + other) % 613}" for n in range(60))
                store.add("tool_result", words, source=f"tide {step} {other}", tool="bash")
        for budget in (60_000, 14_000, 9_000):
            window = store.context_get(budget, model="gpt-5")
            said = [str(item.get("content")) for item in window.items]
            whole = sum(text in one for one in said)
            entries = {entry.id: entry for entry in window.manifest.entries}
            assert whole == 1 or budget == 9_000
            assert provider_count(window.items) <= budget
            full = {entry.id for entry in entries.values() if entry.form == "full"}
            for id in reads:
                if entries[id].form == "excerpt" and "not repeated" in entries[id].reason:
                    assert any(base in full for base in reads if base in entries[id].reason)
                    assert entries[id].tokens < 400
                assert store.expand(id) == text
        assert sum(entries[id].form == "full" for id in reads) <= 1


def test_a_reference_does_not_outlive_what_it_refers_to(tmp_path: Path) -> None:
    text = "\n".join(f"def quay_{n}(ship): return moor(ship, {n * 7919})" for n in range(200))
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": "{}"}} for n in range(2)]
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "Go.")
        store.add("message", {"role": "assistant", "content": None, "tool_calls": calls})
        for call in calls:
            store.add("message", {"role": "tool", "tool_call_id": call["id"], "content": text})
        whole = store.context_get(9_000, model="gpt-5")
        assert [entry.form for entry in whole.manifest.entries] == ["full", "full", "full", "excerpt"]
        assert provider_count(whole.items) < 7_000
        small = store.context_get(1_500, model="gpt-5")
        assert provider_count(small.items) <= 1_500
        assert "not repeated" not in str(small.items)


async def test_asking_reads_only_what_is_new_of_a_long_conversation(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "Go.")
        for step in range(400):
            store.add("tool_result", f"step {step}\n" * 40, source=f"s {step}", tool="bash")
        first = time.process_time()
        window = store.context_get(20_000, model="gpt-5")
        first = time.process_time() - first
        again = time.process_time()
        assert store.context_get(20_000, model="gpt-5").items == window.items
        assert time.process_time() - again < first


async def test_the_asker_needs_no_store(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.db") as store:
        store.add("user", "Go.")
        past = store._run(read_past(store._store, store._formats, store._run(resolve(store._store, "library", None))))
    asker = Asker(Selector(), Tokenizer())
    answer = await asker.answer(past, Ask(100, "m", ratio=2.0))
    assert answer.window.manifest.used > 2 * 3 and answer.plan.is_empty
    assert Watched(Selector()).name == "selector"
