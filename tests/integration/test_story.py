"""The story that it is for, over HTTP: a rule at step 1, a 52 KB grep at step 12, 90 tool calls, 12,000 tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy import open_store
from tests.support import builders, replies
from tests.support.provider_count import provider_count
from tests.support.serve import served
from tests.support.session import conversation, post, sent
from tests.support.strict_lists import chat_fault
from tests.support.upstream import Action, Request, ScriptedUpstream

BUDGET = 12_000
RULE = "never touch db/migrations"
GREP = "\n".join(f"src/mod_{n % 37}/file_{n}.py:{n}: tide_gauge = read({n})" for n in range(1_040))


def strict_model(request: Request) -> Action:
    """Bills as providers do, and is strict about lists."""
    messages = request.json()["messages"]
    fault = chat_fault(messages)
    if fault is not None:
        return replies.error_reply(400, fault[0], param=fault[1])
    return replies.json_reply(replies.completion("noted", prompt=provider_count(messages)))


def output(step: int) -> str:
    if step == 12:
        return GREP
    if step % 3 == 0:
        return "\n".join(f"def quay_{step}_{n}(ship): return ship + {n}" for n in range(60))
    return f"step {step} is done\n" * 30


@pytest.mark.parametrize("policy", ["sticky", "selector"])
def test_ninety_calls_below_the_price_cliff(tmp_path: Path, policy: str) -> None:
    db = tmp_path / "story.db"
    messages: list[dict[str, Any]] = [
        builders.system("You move harbours."),
        builders.user(f"Move the harbour to the new tide API. Please {RULE}, whatever happens. Small steps."),
    ]
    models = {"*": {"window": 128_000, "cliff": BUDGET}}
    with ScriptedUpstream(strict_model) as up, served(up.base_url, db=db, models=models, policy__name=policy) as proxy:
        for step in range(1, 91):
            call = builders.call(f"call_{step:03}aZ9q{step:03}", "bash", command=f"look --at {step}")
            messages += [builders.assistant(None, calls=[call]), builders.result(call["id"], output(step))]
            reply = post(proxy, messages, tools=False)
            assert reply.status_code == 200, (step, reply.text)
            name = conversation(reply)
    counts = [provider_count(request.json()["messages"]) for request in up.requests]
    assert len(counts) == 90  # none was refused, none sent twice
    assert [step for step, count in enumerate(counts, 1) if count > BUDGET] == [12]  # seen once in full
    last = sent(up)
    assert provider_count(messages) > 4 * BUDGET
    said = [str(message.get("content") or "") for message in last]
    assert any(RULE in text for text in said)
    assert not any("file_777.py" in text for text in said)
    with open_store(db) as store:
        manifest = store.context_get(200_000, model="scripted-1", conversation=name).manifest
        grep = next(entry for entry in manifest.entries if entry.full_tokens > 15_000)
        assert sum(grep.id in line for text in said for line in text.split("\n")) <= 1
        assert store.expand(grep.id) == GREP
        assert store.expand(grep.id, lines="500-502") == "\n".join(GREP.split("\n")[499:502])
        assert json.dumps(messages[1]["content"])[1:-1] in json.dumps(said)
