"""A long run through everything but the sockets: real store, real turns, a reply for every request."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from policies.contract import Policy
from policies.sticky import Sticky
from proxy.core.model import Reply, Usage
from proxy.live import LiveBranches
from proxy.models import ModelBook
from proxy.prices import PriceBook
from proxy.recording import merge
from proxy.settle import End, settle
from proxy.store.base import Store
from proxy.tokenizer import Tokenizer
from proxy.turn import Turn, Turns
from proxy.turn_rows import request_rows, window_rows
from proxy.windows import WindowBuilder, WindowOptions
from proxy.wire.chat import ChatFormat
from tests.support import builders, replies
from tests.support.serve import make_config

TENANT = "t"


@dataclass(slots=True)
class Replay:
    """Sends growing lists and settles each with the reply that the run had. The bill is our own count."""

    turns: Turns
    live: LiveBranches
    models: ModelBook
    store: Store
    fmt: ChatFormat = field(default_factory=ChatFormat)
    pieces: list[bytes] = field(default_factory=list)
    count: int = 0
    begin_s: float = 0.0  # of the last call: decoding, placing and choosing its window

    def add(self, *messages: Any) -> None:
        self.pieces += [builders.body_bytes(message) for message in messages]

    async def call(self, reply: Any) -> Turn:
        """The list so far, answered by `reply`, which is then part of it."""
        self.count += 1
        body = b'{"model":"scripted-1","messages":[' + b",".join(self.pieces) + b"]}"
        started = time.perf_counter()
        turn = await self.turns.begin(self.fmt, self.fmt.decode(body, {}), TENANT, f"x{self.count:06}")
        self.begin_s = time.perf_counter() - started
        rows = request_rows(turn)
        row, windows = window_rows(turn, "sticky")
        await self.store.submit(merge(rows, windows))
        end = End("ok", 200)
        batch = settle(
            turn, end, self._reply(reply, turn.limits.billed(turn.estimate)), row, TENANT, self.live, self.models
        )
        await self.store.submit(batch)
        self.add(reply)
        return turn

    def _reply(self, message: Any, bill: int) -> Reply:
        reader = ChatFormat().reader(is_stream=False, strip_usage=False)
        text, calls = message.get("content"), message.get("tool_calls") or ()
        reader.feed(json.dumps(replies.completion(text, calls=calls)).encode())
        reader.finish()
        made = reader.reply()
        return Reply(made.elements, made.text, made.finish, Usage(bill, 5), made.response_id, is_complete=True)


def replay(
    folder: Path, store: Store, *, policy: Policy | None = None, models: dict[str, dict[str, object]] | None = None
) -> Replay:
    config = make_config("http://provider.test/v1", folder / "none.db", models=models or {"*": {"window": 60_000}})
    tokenizer = Tokenizer()
    book = ModelBook(config, PriceBook(config.upstream.url, config.model))
    live = LiveBranches(store)
    builder = WindowBuilder(policy or Sticky(), tokenizer, WindowOptions())
    return Replay(Turns(live, builder, book, tokenizer), live, book, store)


def steps_of(messages: Sequence[Any]) -> list[tuple[list[Any], Any]]:
    """A recorded list as calls: what was new in each request, and its reply."""
    found: list[tuple[list[Any], Any]] = []
    new: list[Any] = []
    for message in messages:
        if message["role"] == "assistant" and new:
            found.append((new, message))
            new = []
        else:
            new.append(message)
    return found
