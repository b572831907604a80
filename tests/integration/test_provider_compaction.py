"""The provider's own compaction as ours, over sockets: a sealed item and a tail, and every original kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from policies.model import Form
from proxy.cli.commands import app
from proxy.core.records import FoldRow, SummaryCallRow
from tests.support import builders, replies
from tests.support import responses_events as events
from tests.support.records import eventually
from tests.support.replies import json_reply
from tests.support.serve import Served, served
from tests.support.session import FOLDED, NEVER, conversation, from_store, tokens_of
from tests.support.strict_responses import Made, responses_fault
from tests.support.upstream import Action, Hang, Request, ScriptedUpstream

NUMBERS = count(1)
WINDOW = 40_000
SEAL = "gAAAAB" + "x9/+" * 60
SETTINGS: dict[str, Any] = {
    "policy__options": NEVER,
    "models": {"*": {"window": WINDOW}},
    "compaction__summarizer": "provider",
    "compaction__wait_s": 20.0,
}
Item = dict[str, Any]


def sealed(request: Request, content: str = SEAL) -> Action:
    """As the real one answers: the user's messages again, and the sealed item behind them."""
    items = [item for item in request.json()["input"] if item.get("role") == "user"]
    body = {"id": "resp_c1", "object": "response.compaction", "created_at": 1,
            "output": [*items, {"id": "cmp_1", "type": "compaction", "encrypted_content": content}],
            "usage": events.usage(tokens_of(request.body), 90)}  # fmt: skip
    return json_reply(body)


@dataclass(slots=True)
class Provider:
    """Answers the agent, billing four bytes a token; `compact` answers what goes to /responses/compact."""

    compact: Callable[[Request], Action] = sealed
    asked: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Action:
        if request.path.endswith("/responses/compact"):
            self.asked.append(request)
            return self.compact(request)
        if request.path.endswith("/chat/completions"):
            return json_reply(replies.completion("noted", prompt=tokens_of(request.body)))
        item = events.message_item(f"msg_{next(NUMBERS)}", "noted")
        return json_reply(events.response(f"resp_{next(NUMBERS)}", [item], events.usage(tokens_of(request.body), 2)))


@contextmanager
def session(
    compact: Callable[[Request], Action] = sealed, **settings: Any
) -> Iterator[tuple[ScriptedUpstream, Served, list[Item], Provider]]:
    provider = Provider(compact)
    with ScriptedUpstream(provider) as up, served(up.base_url, **{**SETTINGS, **settings}) as proxy:
        yield up, proxy, opening(), provider


def opening() -> list[Item]:
    return talk([said("system", "be brief"), said("user", f"station {next(NUMBERS)}")], 52)


def said(role: str, text: str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def talk(items: list[Item], turns: int, size: int = 2000) -> list[Item]:
    for _ in range(turns):
        items += [said("assistant", "noted"), said("user", builders.long_text(next(NUMBERS), size))]
    return items


def step(number: int, text: str) -> list[Item]:
    """Reasoning, a call behind it, and its output."""
    call_id = f"call_q{number:03d}Wb19cdE{number:03d}"
    return [
        events.reasoning_item(f"rs_{number:04d}", f"gAAAA/{number:04d}+seal=" * 9),
        events.call_item(f"fc_{number:04d}", call_id, "look", json.dumps({"what": f"gauge {number}"})),
        {"type": "function_call_output", "call_id": call_id, "output": text},
    ]


def ask(proxy: Served, items: list[Item], **more: Any) -> httpx.Response:
    body = {"model": "scripted-1", "store": False, "input": items, **more}
    headers = {"authorization": "Bearer sk-one"}
    reply = httpx.post(f"{proxy.base_url}/responses", json=body, headers=headers, timeout=60)
    assert reply.status_code == 200, reply.text
    return reply


def calls(proxy: Served, name: str) -> list[SummaryCallRow]:
    return from_store(proxy.db, lambda store: store.summary_calls(name))


def folds(proxy: Served, name: str) -> list[FoldRow]:
    return from_store(proxy.db, lambda store: store.folds(name))


def settled(proxy: Served, name: str) -> list[SummaryCallRow]:
    """The calls, once there is one and no claim is held any more."""

    def look() -> list[SummaryCallRow]:
        made = calls(proxy, name)
        claim = from_store(proxy.db, lambda store: store.claim(f"summaries:{name}"))
        return made if made and claim is not None and claim[1] <= time.time() else []

    return eventually(look)


def windows(up: ScriptedUpstream) -> list[Any]:
    return [request.json() for request in up.requests if request.path.endswith("/v1/responses")]


def kinds(window: Any) -> list[str]:
    return [item["type"] for item in window["input"]]


def until_folded(up: ScriptedUpstream, proxy: Served, items: list[Item]) -> str:
    """Turns until a window has the sealed item or a digest."""
    name = conversation(ask(proxy, items))
    settled(proxy, name)
    for _ in range(12):
        ask(proxy, talk(items, 1, 3000))
        if "compaction" in kinds(windows(up)[-1]) or FOLDED.decode() in json.dumps(windows(up)[-1]):
            return name
    raise AssertionError("never folded")


def test_the_sealed_item_and_the_tail_go_out_and_every_original_stays() -> None:
    with session() as (up, proxy, items, provider):
        items[4] = said("assistant", "noted; never touch db/ledger_v2")
        items[5]["content"][0]["text"] = "Never touch the sluice at berth 4711. " + items[5]["content"][0]["text"]
        name = until_folded(up, proxy, items)
        window = windows(up)[-1]
        place = kinds(window).index("compaction")
        assert window["input"][place] == {"id": "cmp_1", "type": "compaction", "encrypted_content": SEAL}
        assert json.dumps(window["input"][place], separators=(",", ":")).encode() in up.requests[-1].body
        assert window["input"][:2] == items[:2], "instructions and the first message stay in front"
        note = window["input"][place + 1]["content"][0]["text"]
        assert FOLDED.decode() in note and "Never touch the sluice at berth 4711." in note
        assert window["input"][-1] == items[-1], "the tail as it came"
        # What the provider got were originals, with the client's own key, for the same model.
        sent = provider.asked[0].json()
        assert sent["model"] == "scripted-1" and set(sent) == {"model", "input"}
        assert all(item in items for item in sent["input"])
        assert provider.asked[0].header("authorization") == "Bearer sk-one"
        call = settled(proxy, name)[0]
        assert (call.outcome, call.summarizer, call.output) == ("ok", "provider", 90) and call.input > 0
        fold = folds(proxy, name)[-1]
        assert fold.told >= 1
        # The same window again and again, until there is more to fold.
        ask(proxy, talk(items, 1, 100))
        again = windows(up)[-1]["input"]
        assert again[: len(window["input"])] == window["input"]
        assert len(provider.asked) == len(calls(proxy, name))
        # Nothing is lost: the seal's originals by its own id, the window once more from the store.
        seal = _seal_id(proxy, name)
        covered = from_store(proxy.db, lambda store: store.coverage(name, seal))
        assert len(covered) in {len(request.json()["input"]) for request in provider.asked}
        made = CliRunner().invoke(app, ["window", _last_window(proxy, name), "--db", str(proxy.db), "--render"])
        assert made.exit_code == 0 and made.stdout.encode() == up.requests[-1].body


def _last_window(proxy: Served, name: str) -> str:
    return from_store(proxy.db, lambda store: store.windows(name))[-1]


def _seal_id(proxy: Served, name: str) -> str:
    last = _last_window(proxy, name)
    manifest = from_store(proxy.db, lambda store: store.window(last))
    assert manifest is not None
    folded = [entry.item for entry in manifest.entries if entry.form == Form.FOLDED]
    assert len(folded) == 2, folded
    return folded[0]


def test_a_restart_serves_the_same_bytes(tmp_path: Path) -> None:
    provider, items = Provider(), opening()
    with ScriptedUpstream(provider) as up:
        with served(up.base_url, tmp_path / "x.db", **SETTINGS) as proxy:
            until_folded(up, proxy, items)
            ask(proxy, talk(items, 1, 100))
            before = up.requests[-1].body
        asked = len(provider.asked)
        with served(up.base_url, tmp_path / "x.db", **SETTINGS) as proxy:
            ask(proxy, items)
            assert up.requests[-1].body == before and len(provider.asked) == asked


def test_another_model_and_another_format_get_the_digest() -> None:
    with session() as (up, proxy, items, _):
        until_folded(up, proxy, items)
        ask(proxy, talk(items, 1, 100), model="scripted-2")
        other = windows(up)[-1]
        assert "compaction" not in kinds(other) and FOLDED.decode() in json.dumps(other)
        messages = [{"role": item["role"], "content": item["content"][0]["text"]} for item in items]
        headers = {"authorization": "Bearer sk-one"}
        body = {"model": "scripted-1", "messages": messages}
        reply = httpx.post(f"{proxy.base_url}/chat/completions", json=body, headers=headers, timeout=60)
        assert reply.status_code == 200
        assert b'"compaction"' not in up.requests[-1].body


@pytest.mark.parametrize(
    ("compact", "outcome", "reason"),
    [
        (lambda request: json_reply({"error": {"message": "no such route"}}, status=404), "failed", "status 404"),
        (lambda request: json_reply({"error": {"message": "slow down"}}, status=429), "failed", "status 429"),
        (lambda request: json_reply({"object": "response.compaction", "output": "none"}), "failed", "no compaction"),
        (lambda request: json_reply({"object": "response.compaction", "output": []}), "rejected", "empty"),
        (lambda request: sealed(request, ""), "rejected", "empty"),
        (lambda request: sealed(request, "x" * 400_000), "rejected", "saves too little"),
        (lambda request: Action((Hang(),)), "failed", "no answer"),
    ],
    ids=["404", "429", "no-list", "no-item", "no-content", "too-large", "hangs"],
)
def test_comp_what_cannot_be_had_or_trusted_leaves_the_digest(
    compact: Callable[[Request], Action], outcome: str, reason: str
) -> None:
    """COMP: nothing is flagged for a bad one; where the window must shrink the rules tell; no loop of attempts."""
    with session(compact, compaction__deadline_s=0.5, compaction__wait_s=0.1) as (up, proxy, items, provider):
        name = conversation(ask(proxy, items))
        made = settled(proxy, name)
        assert made[0].outcome == outcome and reason in made[0].reason
        assert not folds(proxy, name)
        for _ in range(12):
            ask(proxy, talk(items, 1, 3000))
        assert all("compaction" not in kinds(window) for window in windows(up))
        assert folds(proxy, name) and FOLDED.decode() in json.dumps(windows(up)[-1])
        assert len(provider.asked) <= 4


def test_pair_reasoning_calls_and_outputs_go_to_the_provider_whole_and_stay_whole_in_the_tail() -> None:
    """Every list, the one to be compacted and each window, pairs up by the provider's own rules."""
    made = Made()
    with session() as (up, proxy, items, provider):
        for number in range(2, 40, 4):
            piece = step(number, f"gauge {number} stands at {number * 37}\n" * 20)
            made.add(piece[:2])
            items[number * 2 : number * 2] = piece
        until_folded(up, proxy, items)
        ask(proxy, talk(items, 1, 100))
        assert "compaction" in kinds(windows(up)[-1])
        lists = [request.json()["input"] for request in provider.asked] + [window["input"] for window in windows(up)]
        assert any(item["type"] == "reasoning" for item in lists[0])
        for one in lists:
            assert responses_fault(one, made) is None


def test_chat_alone_asks_for_nothing() -> None:
    with session() as (up, proxy, items, provider):
        messages = [{"role": item["role"], "content": item["content"][0]["text"]} for item in talk(items, 20)]
        headers = {"authorization": "Bearer sk-one"}
        for end in range(len(messages) - 9, len(messages) + 1, 2):
            body = {"model": "scripted-1", "messages": messages[:end]}
            reply = httpx.post(f"{proxy.base_url}/chat/completions", json=body, headers=headers, timeout=60)
            assert reply.status_code == 200
        assert FOLDED in up.requests[-1].body and not provider.asked
