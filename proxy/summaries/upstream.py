"""Summaries by a model at the provider, with the client's own key or a configured one. Calls, and judges nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proxy.core.model import Usage
from proxy.core.pricing import cost
from proxy.models import ModelLimits
from proxy.summaries.base import Caller, Draft, Material, SummarizerError
from proxy.summaries.calling import ask
from proxy.summaries.prompt import PROMPT, TAIL, VERSION, pieces
from proxy.upstream import Upstream
from proxy.wire.summary_call import SummaryReply, summary_reply, summary_request

INPUT_SHARE = 0.5
"""Share of the model's window that a record may take: the rest is for the answer and for counting errors."""
CHARS_PER_TOKEN = 2.5
"""Few characters a token, so that dense text fits too."""
LEAST_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """`model` "" is the conversation's own; `key` "" is the client's own."""

    url: str
    model: str = ""
    key: str = ""


class UpstreamSummarizer:
    """One call for each piece of a segment that fits the model's window; mostly that is one."""

    seals = False

    def __init__(self, options: UpstreamOptions, upstream: Upstream, limits: Callable[[str], ModelLimits]) -> None:
        self._options = options
        self._upstream = upstream
        self._limits = limits
        self.name = f"upstream:{options.model}" if options.model else "upstream"
        self.version = VERSION

    async def summarize(self, material: Material, caller: Caller) -> Draft:
        model = self._options.model or caller.model
        limits = self._limits(model)
        # Room for at least a little: a window that small would be refused by the model itself.
        room = max(LEAST_CHARS, int(INPUT_SHARE * limits.facts.window * CHARS_PER_TOKEN) - len(PROMPT))
        records = pieces(material.items, room)
        replies = [await self._ask(model, record, caller) for record in records]
        usage = _sum([reply.usage for reply in replies if reply.usage is not None])
        worst = next((r for r in replies if r.has_calls or r.is_refusal or r.finish != "stop"), replies[-1])
        has_gap = any(not reply.text.strip() for reply in replies)
        return Draft(
            text="" if has_gap else "\n".join(reply.text.strip() for reply in replies),
            finish=worst.finish,
            has_calls=worst.has_calls,
            has_reasoning=any(reply.has_reasoning for reply in replies),
            is_refusal=worst.is_refusal,
            model=model,
            usage=usage,
            cost=cost(usage, limits.facts) if usage is not None else None,
        )

    async def _ask(self, model: str, record: str, caller: Caller) -> SummaryReply:
        content = summary_request(model, PROMPT, record + TAIL)
        reply = summary_reply(await ask(self._upstream, self._options.url, self._options.key, caller, content))
        if reply is None:
            raise SummarizerError("the answer is no chat completion")
        return reply


def _sum(bills: list[Usage]) -> Usage | None:
    if not bills:
        return None
    return Usage(
        input=sum(bill.input for bill in bills),
        output=sum(bill.output for bill in bills),
        cached=sum(bill.cached for bill in bills),
        written=sum(bill.written for bill in bills),
        reasoning=sum(bill.reasoning for bill in bills),
        cost=sum(bill.cost or 0.0 for bill in bills) if any(bill.cost is not None for bill in bills) else None,
    )
