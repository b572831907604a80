"""What is carried over from turn to turn only spares work: dropped at any moment, no byte and no row is another."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy import exchange as exchange_module
from proxy.building import build_exchanges
from proxy.core.headers import RawHeaders
from proxy.exchange import Exchanges
from proxy.link import ClientLink
from proxy.live import BranchState, decode_state
from proxy.passthrough import RawRequest
from proxy.relay import Responder
from proxy.store.open import open_store
from proxy.tokenizer import Tokenizer
from proxy.upstream import Upstream, UpstreamOptions, UpstreamResponse
from tests.support import builders, replies
from tests.support.serve import make_config

WINDOWS = {"sticky": 40_000, "masks": 40_000, "selector": 20_000}
TIMES = frozenset({"created_at", "updated_at", "ended_at", "first_byte_ms", "duration_ms", "seal", "head", "signature"})
TABLES = (
    *("bodies", "messages", "exchanges", "outcomes", "paths", "windows", "plans", "summaries", "working", "branches"),
    *("keys", "links", "folds", "chains"),
)
SETTINGS: dict[str, dict[str, object]] = {
    "sticky": {},
    "masks": {"policy.options": {"economics": False, "mask_at": 3000, "min_batch": 0, "min_share": 0.0}},
    "selector": {"policy.name": "selector"},
}


class Reply(UpstreamResponse):
    """One short reply."""

    def __init__(self, body: bytes) -> None:
        self.status, self.headers = 200, [(b"content-type", b"application/json")]
        self._parts = [body]

    async def read(self) -> bytes:
        return self._parts.pop() if self._parts else b""

    async def aclose(self) -> None:
        pass

    def finish(self) -> None:
        pass


class Provider(Upstream):
    """Answers in this process with words that follow from the request's number, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(UpstreamOptions())
        self.sent: list[bytes] = []

    async def send(self, method: str, url: str, headers: RawHeaders, content: Any) -> UpstreamResponse:
        self.sent.append(content)
        number = len(self.sent)
        body = replies.completion(f"noted, that was number {number}", usage=replies.usage(len(content) // 4))
        return Reply(builders.body_bytes(body))


def talk(random: random.Random) -> list[bytes]:
    """Requests of one client: it goes on, repeats itself, goes back, changes its tools, edits what it said."""
    messages = [builders.system(), builders.user("Put the harbour's tables in order, and never touch the reds.")]
    bodies, number = [], 0
    tools = [builders.tool()]
    for turn in range(30):
        body = builders.body_bytes(builders.request(messages, tools=tools))
        bodies += [body, body] if random.random() < 0.1 else [body]
        said = builders.assistant(f"noted, that was number {len(bodies)}")
        for _ in range(random.randrange(1, 4)):
            messages += builders.step(number, builders.long_text(number % 7, random.choice([200, 3000, 6000])))
            number += 1
        if random.random() < 0.7:
            messages += [said, builders.user(f"go on with part {turn} of the plan")]
        if random.random() < 0.1:
            del messages[-4:]
            messages.append(builders.user(f"no, once more, part {turn}"))
        if random.random() < 0.1:
            messages[1] = builders.user(f"Put the harbour's tables in order, edition {turn}.")
        if random.random() < 0.1:
            tools = [builders.tool(), builders.tool("find", f"Finds things, edition {turn}.")]
    return bodies


async def ask(exchanges: Exchanges, body: bytes) -> None:
    waiting = [body]

    async def receive() -> MutableMapping[str, Any]:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        raise AssertionError("read on")

    async def send(message: MutableMapping[str, Any]) -> None:
        assert message.get("status", 200) == 200

    url = "http://provider.test/v1/chat/completions"
    request = RawRequest("POST", "/v1/chat/completions", url, [(b"content-type", b"application/json")], "t", "")
    fmt = exchanges.format_of(request)
    assert fmt is not None
    await exchanges.run(request, fmt, ClientLink(receive), Responder(send))


def drop(exchanges: Exchanges, random: random.Random) -> None:
    """Forget some of what only spares work."""
    services = exchanges._services
    for live in services.live._live.values():
        if random.random() < 0.7:
            live.prior = None
        if random.random() < 0.7:
            live.numbered = None
        if random.random() < 0.5:
            live._seen = ((), frozenset())
    chat = services.formats.find("POST", "/v1/chat/completions")
    splitter = chat._splitter  # type: ignore[union-attr]
    if random.random() < 0.5:
        splitter._regions = ()
    if random.random() < 0.5:
        splitter.cache._young.clear(), splitter.cache._old.clear()
    if random.random() < 0.5:
        chat._fields._known.clear()  # type: ignore[union-attr]
    measurer = services.turns._builder._measurer
    if random.random() < 0.5:
        measurer.listings._known.clear()


def rows(path: Path) -> dict[str, list[Any]]:
    """All that is in the store, without times and what follows from them."""
    with sqlite3.connect(path) as database:
        found = {}
        for table in TABLES:
            cursor = database.execute(f"SELECT * FROM {table} ORDER BY rowid" if table not in ("keys", "links") else
                                      f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4")  # fmt: skip
            names = [column[0] for column in cursor.description]
            found[table] = [
                {name: plain(table, name, value) for name, value in zip(names, row, strict=True) if name not in TIMES}
                for row in cursor.fetchall()
            ]
    return found


def plain(table: str, name: str, value: Any) -> Any:
    if (table, name) == ("branches", "state"):
        state: BranchState = msgspec.structs.replace(decode_state(value), at=0.0)
        return state
    if (table, name) == ("folds", "id"):  # made from the time too
        return b""
    return value


@pytest.mark.parametrize("policy", SETTINGS)
@pytest.mark.parametrize("seed", range(2))
async def test_what_is_carried_over_changes_nothing(
    tmp_path: Path, policy: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, sent = [], []
    for is_dropped in (False, True):
        numbers = itertools.count()
        monkeypatch.setattr(exchange_module.secrets, "token_hex", lambda size, n=numbers: f"{next(n):010x}")
        monkeypatch.setattr(exchange_module.time, "time", lambda: 1_700_000_000.0)
        file = tmp_path / f"{is_dropped}.db"
        config = make_config("http://provider.test/v1", file, SETTINGS[policy], {"*": {"window": WINDOWS[policy]}})
        store, provider, tokenizer = open_store(file), Provider(), Tokenizer()
        await store.open()
        await tokenizer.load()
        exchanges = await build_exchanges(config, store, provider, tokenizer)
        chance = random.Random(seed)
        for body in talk(random.Random(seed)):
            await ask(exchanges, body)
            if is_dropped:
                drop(exchanges, chance)
        await store.aclose()
        stored.append(rows(file))
        sent.append(provider.sent)
    assert sent[0] == sent[1]
    for table in TABLES:
        assert stored[0][table] == stored[1][table], table
    assert len(stored[0]["plans"]) > 1  # something was made smaller, more than once
