"""The parts that make a turn, without a server: what an exchange would hold between a request and its reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policies.contract import Policy
from policies.sticky import Sticky, StickyOptions
from proxy.core.model import Reply, Usage
from proxy.core.offers import MakeMaker
from proxy.core.records import Batch, WindowRow
from proxy.live import LiveBranches
from proxy.models import ModelBook
from proxy.prices import PriceBook
from proxy.settle import End, settle
from proxy.store.null import NullStore
from proxy.tokenizer import Tokenizer
from proxy.turn import Turn, Turns
from proxy.turn_rows import request_rows, window_rows
from proxy.windows import WindowBuilder, WindowOptions
from proxy.wire.chat import ChatFormat
from tests.support import builders, replies
from tests.support.serve import make_config

TENANT = "t"
EAGER = StickyOptions(economics=False, mask_at=0, keep=0, min_batch=0, min_share=0)


@dataclass(slots=True)
class Bench:
    """Begins turns and settles them, and keeps what they would have written."""

    turns: Turns
    live: LiveBranches
    models: ModelBook
    tokenizer: Tokenizer
    builder: WindowBuilder
    count: int = 0

    async def begin(self, messages: Sequence[Any], **extra: Any) -> Turn:
        self.count += 1
        fmt = ChatFormat()
        body = builders.body_bytes(builders.request(messages, tools=[builders.tool()], **extra))
        return await self.turns.begin(fmt, fmt.decode(body, {}), TENANT, f"x{self.count}")

    def end(self, turn: Turn, text: str = "noted", *, bill: int = 0, outcome: str = "ok") -> Batch:
        """The rows that the reply brings; the request's and the window's are made on the way."""
        window, _ = self.record(turn)[1:]
        reply = reply_of(text, bill) if outcome == "ok" else None
        return settle(turn, End(outcome, 200), reply, window, TENANT, self.live, self.models)

    def record(self, turn: Turn) -> tuple[Batch, WindowRow, Batch]:
        rows = request_rows(turn)
        return (rows, *window_rows(turn, "sticky"))


def reply_of(text: str, bill: int = 0) -> Reply:
    reader = ChatFormat().reader(is_stream=False, strip_usage=False)
    reader.feed(builders.body_bytes(replies.completion(text)))
    reader.finish()
    made = reader.reply()
    usage = Usage(bill, 5) if bill else None
    return Reply(made.elements, made.text, made.finish, usage, made.response_id, is_complete=True)


def bench(
    folder: Path, policy: Policy | None = None, *, window: int = 10_000, makers: Sequence[MakeMaker] = ()
) -> Bench:
    config = make_config("http://provider.test/v1", folder / "x.db", models={"*": {"window": window}})
    tokenizer = Tokenizer()
    models = ModelBook(config, PriceBook(config.upstream.url, config.model))
    live = LiveBranches(NullStore())
    builder = WindowBuilder(policy or Sticky(EAGER), tokenizer, WindowOptions(), makers=makers)
    return Bench(Turns(live, builder, models, tokenizer), live, models, tokenizer, builder)
