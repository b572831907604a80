"""Node clients through the product. They run when `npm install` was done in tests/clients, else they are skipped."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest

from tests.support.codex import CLIENTS
from tests.support.replies import error_reply
from tests.support.serve import served
from tests.support.strict_lists import ORPHAN
from tests.support.strict_model import SCRIPT, STEPS, SYSTEM, TOOL, TURNS, StrictModel, ask, report, survey
from tests.support.upstream import ScriptedUpstream

NODE = shutil.which("node")
pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        NODE is None or not (CLIENTS / "node_modules" / "openai").is_dir(), reason="npm install in tests/clients first"
    ),
]
WINDOW = 5_000
SMALL: dict[str, Any] = {"policy__options": {"mask_at": 2_000, "min_tail": 1}, "window__target_share": 0.34}
clients = pytest.mark.parametrize("client", ["openai", "openai-responses", "ai-sdk", "ai-sdk-responses"])
streamed = pytest.mark.parametrize("kind", ["whole", "stream"])


def talk() -> str:
    arguments = [json.loads(text) for answer in SCRIPT.values() for _, text in answer.calls]
    results = {values["row"]: survey(**values) for values in arguments}
    asks = [ask(turn) for turn in range(1, TURNS + 1)]
    return json.dumps({"system": SYSTEM, "tool": TOOL, "asks": asks, "results": results})


def drive(client: str, kind: str, base_url: str) -> dict[str, Any]:
    command = [str(NODE), str(CLIENTS / "session.mjs"), client, base_url, kind]
    done = subprocess.run(command, input=talk(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@cache
def direct(client: str, kind: str) -> dict[str, Any]:
    model = StrictModel()
    with ScriptedUpstream(model) as upstream:
        seen = drive(client, kind, upstream.base_url)
    assert not model.refusals
    assert seen["error"] is None
    assert seen["answers"] == [report(turn) for turn in range(1, TURNS + 1)]
    return seen


@clients
@streamed
def test_a_long_session_is_the_same_in_a_small_window(client: str, kind: str) -> None:
    expected = direct(client, kind)
    model = StrictModel(window=WINDOW)
    with (
        ScriptedUpstream(model) as upstream,
        served(
            upstream.base_url, models={"scripted-*": {"window": WINDOW}}, window__compact_at=2_000, **SMALL
        ) as proxy,
    ):
        seen = drive(client, kind, proxy.base_url)
    assert seen == expected
    assert not model.refusals
    assert model.overflows == 0
    assert len(model.taken) == TURNS * (STEPS + 1)
    bodies = [request.body.decode() for request in model.taken]
    assert any("output omitted from history" in body for body in bodies)
    assert any("made by the proxy" in body for body in bodies)


@clients
@streamed
def test_one_overflow_is_recovered_unseen(client: str, kind: str) -> None:
    expected = direct(client, kind)
    model = StrictModel(window=WINDOW)
    settings: dict[str, Any] = {"policy__options": {"mask_at": 50_000}}
    with (
        ScriptedUpstream(model) as upstream,
        served(upstream.base_url, models={"scripted-*": {"window": 50_000}}, **settings) as proxy,
    ):
        seen = drive(client, kind, proxy.base_url)
    assert seen == expected
    assert not model.refusals
    assert model.overflows >= 1


@streamed
def test_what_is_kept_at_the_provider_is_named_and_made_smaller_all_the_same(kind: str) -> None:
    """By default the AI SDK refers to stored items by id. They went through here, so what they say is known."""
    model, straight = StrictModel(), StrictModel()
    with ScriptedUpstream(straight) as upstream:
        expected = drive("ai-sdk-stored", kind, upstream.base_url)
    assert expected["error"] is None and not straight.refusals
    settings: dict[str, Any] = {"models": {"scripted-*": {"window": WINDOW}}, "window__compact_at": 2_000}
    with ScriptedUpstream(model) as upstream, served(upstream.base_url, **settings, **SMALL) as proxy:
        seen = drive("ai-sdk-stored", kind, proxy.base_url)
    assert seen == expected
    assert not model.refusals
    assert b'"item_reference"' in model.taken[-1].body
    assert any(b"output omitted from history" in request.body for request in model.taken)
    assert any(b"made by the proxy" in request.body for request in model.taken)
    assert len(model.taken[-1].body) < len(straight.taken[-1].body) // 2


@clients
@streamed
def test_an_error_is_the_clients_own(client: str, kind: str) -> None:
    faults = [
        error_reply(429, "Rate limit reached.", code="rate_limit_exceeded", headers=[("retry-after", "7")]),
        error_reply(500, "The server had an error.", kind="server_error"),
        error_reply(400, ORPHAN, param="messages.[3].role"),
    ]
    with ScriptedUpstream(StrictModel()) as upstream, served(upstream.base_url) as proxy:
        for fault in faults if client == "openai" else faults[:1]:
            upstream.enqueue(fault, fault)
            straight = drive(client, kind, upstream.base_url)
            through = drive(client, kind, proxy.base_url)
            assert straight["error"] is not None
            assert through == straight
