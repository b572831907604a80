"""Random agents against a strict provider: whatever a client does, what goes out is valid, its own, and repeatable.

UNDERCLIFF_FUZZ=200 runs so many worlds; UNDERCLIFF_FUZZ_SEED=7 starts with another one.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.store.base import Store
from proxy.views import find_window, render_window
from tests.support import builders
from tests.support.fuzz import Message, RandomAgent, RandomProvider, from_stream
from tests.support.serve import Served, served
from tests.support.session import FOLDED, OMITTED, from_store, raw_messages
from tests.support.strict_lists import chat_fault
from tests.support.upstream import ScriptedUpstream

WORLDS = int(os.environ.get("UNDERCLIFF_FUZZ", "6"))
SEED = int(os.environ.get("UNDERCLIFF_FUZZ_SEED", "0"))
REQUESTS = 45
MARK = re.compile(rb"zq\d+x[0-9a-f]{8}qz")
TOOLS = json.dumps([builders.tool(), builders.tool("read")]).encode()


@dataclass(slots=True)
class Shot:
    """One request as the client sent it, and what came of it."""

    key: str
    head: bytes
    raws: list[bytes]
    window: str = ""
    out: bytes = b""

    @property
    def body(self) -> bytes:
        return self.head + b",".join(self.raws) + b"]}"


@dataclass(slots=True)
class World:
    """One proxy, one provider, some agents under some keys."""

    rng: random.Random
    up: ScriptedUpstream
    provider: RandomProvider
    shots: list[Shot] = field(default_factory=list)

    def shoot(self, client: httpx.Client, proxy: Served, shot: Shot) -> httpx.Response:
        before = len(self.up.requests)
        headers = {"content-type": "application/json", "authorization": f"Bearer {shot.key}"}
        reply = client.post(f"{proxy.base_url}/chat/completions", content=shot.body, headers=headers)
        shot.window = reply.headers.get("x-undercliff-window", "")
        shot.out = self.up.requests[-1].body
        assert before < len(self.up.requests) <= before + 2
        return reply


def make_shot(rng: random.Random, agent: RandomAgent, key: str) -> Shot:
    head = b'{"model":"scripted-1",'
    if rng.random() < 0.5:
        head += b'"stream":true,'
        if rng.random() < 0.4:
            head += b'"stream_options":{"include_usage":true},'
    return Shot(key, head + b'"tools":' + TOOLS + b',"messages":[', list(agent.talk.raws))


def check_window(shot: Shot, mark: str) -> None:
    """Everything in it is the client's own, in its order; what must be there is there, byte for byte."""
    assert set(MARK.findall(shot.out)) <= {mark.encode()}
    fault = chat_fault(json.loads(shot.out)["messages"])
    assert fault is None or chat_fault(json.loads(shot.body)["messages"]) == fault
    place = 0
    kept: set[int] = set()
    digests = 0
    for raw in raw_messages(shot.out):
        found = next((i for i in range(place, len(shot.raws)) if is_same(raw, shot.raws[i])), None)
        if found is not None:
            kept.add(found)
            place = found + 1
            continue
        assert FOLDED in raw, raw[:300]
        digests += 1
    assert digests <= 1
    messages = [json.loads(raw) for raw in shot.raws]
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    pins = {index for index, message in enumerate(messages) if message["role"] in ("system", "developer")}
    for index in pins | set(users[:1]) | {len(messages) - 1}:
        assert index in kept and shot.raws[index] in shot.out, messages[index]


def is_same(raw: bytes, own: bytes) -> bool:
    """The client's bytes, or a stub of them: another text in place of the result's, and nothing else."""
    if raw == own:
        return True
    if OMITTED not in raw:
        return False
    one, other = json.loads(raw), json.loads(own)
    if other["role"] != "tool" or one.keys() != other.keys():
        return False
    if any(one[key] != other[key] for key in one if key != "content"):
        return False
    return is_stub(one["content"], other["content"])


def is_stub(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other or (isinstance(one, str) and isinstance(other, str) and "output omitted" in one)
    return len(one) == len(other) and all(
        a.keys() == b.keys() and all(is_stub(a[k], b[k]) if k == "text" else a[k] == b[k] for k in a)
        for a, b in zip(one, other, strict=True)
    )


def must_fit(shot: Shot, limit: int) -> bool:
    """Does what can never be reduced leave enough room? Everything behind the last answer, and the pins."""
    messages = [json.loads(raw) for raw in shot.raws]
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=0)
    needed = sum(
        len(raw) for i, raw in enumerate(shot.raws) if i >= last or messages[i]["role"] in ("system", "developer")
    )
    first = next(len(raw) for raw, m in zip(shot.raws, messages, strict=True) if m["role"] == "user")
    return (needed + first + len(shot.head)) // 4 < limit * 0.6


def reply_message(reply: httpx.Response) -> Message:
    if reply.headers["content-type"].startswith("text/event-stream"):
        return from_stream(reply.content)
    message: Message = reply.json()["choices"][0]["message"]
    return message


def settings(rng: random.Random, limit: int) -> dict[str, Any]:
    """Small marks, so that masks, folds and overflows all happen; sometimes the limit is not what we think."""
    options = {
        "economics": rng.random() < 0.4,
        "mask_at": rng.choice([0, 1500, 4000]),
        "min_batch": rng.choice([0, 300]),
        "keep": rng.choice([0, 1, 3]),
        "min_share": rng.choice([0, 0.5, 2]),
    }
    believed = rng.choice([limit, limit, limit * 4, 200_000])
    return {"policy__options": options, "models": {"*": {"window": believed}}}


def copy_store(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as two:
        one.backup(two)
    for secret in source.parent.glob("*.secret"):
        shutil.copy(secret, target.parent / secret.name)


async def renderings(store: Store, windows: Sequence[str]) -> list[bytes]:
    return [await render_window(store, await find_window(store, window)) for window in windows]


@pytest.mark.parametrize("number", range(SEED, SEED + WORLDS))
def test_whatever_a_client_does(tmp_path: Path, number: int) -> None:
    rng = random.Random(number)
    limit = rng.choice([6000, 9000])
    provider = RandomProvider(random.Random(number + 1), limit, is_usage_known=rng.random() < 0.8)
    options = settings(rng, limit)
    db = tmp_path / "one" / "store.db"
    db.parent.mkdir()
    agents = [(RandomAgent(rng, index), f"sk-{index % 2}") for index in range(3)]
    with ScriptedUpstream(provider) as up, httpx.Client(timeout=30, trust_env=False) as client:
        world = World(rng, up, provider)
        with served(up.base_url, db, **options) as proxy:
            for _ in range(REQUESTS):
                agent, key = rng.choice(agents)
                one_request(world, client, proxy, agent, key)
            last = make_last(world, agents)
            copy = tmp_path / "two" / "store.db"
            copy.parent.mkdir()
            copy_store(db, copy)
            world.shoot(client, proxy, last)
        windows = [shot for shot in world.shots if shot.window]
        bodies = from_store(db, lambda store: renderings(store, [shot.window for shot in windows]))
        assert [shot.out for shot in windows] == bodies
        again = Shot(last.key, last.head, last.raws)
        with served(up.base_url, copy, **options) as proxy:
            world.shoot(client, proxy, again)
        assert again.out == last.out


def one_request(world: World, client: httpx.Client, proxy: Served, agent: RandomAgent, key: str) -> None:
    world.provider.agent = agent
    shot = make_shot(world.rng, agent, key)
    refused = len(world.provider.refusals)
    reply = world.shoot(client, proxy, shot)
    assert len(world.provider.refusals) == refused, world.provider.refusals[-1][1]
    check_window(shot, agent.talk.mark)
    if reply.status_code == 200:
        world.shots.append(shot)
        agent.take(reply_message(reply))
        agent.move()
        return
    assert reply.status_code == 400 and not must_fit(shot, world.provider.limit), (reply.text, len(shot.out))
    agent.edit()  # as a person would: back to where it fitted


def make_last(world: World, agents: Sequence[tuple[RandomAgent, str]]) -> Shot:
    agent, key = world.rng.choice(agents)
    world.provider.agent = agent
    if agent.talk.open_calls() or agent.talk.messages[-1]["role"] == "assistant":
        agent.go_on()
    return make_shot(world.rng, agent, key)
