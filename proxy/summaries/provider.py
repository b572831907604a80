"""Compaction by the provider itself: the beginning of a fold becomes one sealed element that its own models can read.

For the Responses API alone. What is in the element nobody else knows: the originals stay in the store,
and a digest by rules stands in every window that another model or another format gets.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.core.pricing import cost
from proxy.models import ModelLimits
from proxy.summaries.base import Caller, Draft, Material, SummarizerError
from proxy.summaries.calling import ask
from proxy.upstream import Upstream
from proxy.wire.compact_call import compact_reply, compact_request

MOST_BYTES = 32 << 20
"""A sealed element may have 20 MiB; the answer holds the client's own items as well."""
WINDOW_SHARE = 0.9
BYTES_PER_TOKEN = 4


class ProviderSummarizer:
    """`POST /responses/compact` at the upstream. `key` "" is the client's own."""

    name = "provider"
    version = "1"
    seals = True

    def __init__(self, url: str, key: str, upstream: Upstream, limits: Callable[[str], ModelLimits]) -> None:
        self._url = url
        self._key = key
        self._upstream = upstream
        self._limits = limits

    async def summarize(self, material: Material, caller: Caller) -> Draft:
        """The sealed element as the draft's text. Raises `SummarizerError`."""
        facts = self._limits(caller.model).facts
        size = sum(map(len, material.raws))
        if size > WINDOW_SHARE * BYTES_PER_TOKEN * facts.window:
            raise SummarizerError(f"{size:,} bytes are more than {caller.model} can read at one stroke")
        content = compact_request(caller.model, material.raws)
        body = await ask(self._upstream, self._url, self._key, caller, content, most_bytes=MOST_BYTES)
        reply = compact_reply(body)
        if reply is None:
            raise SummarizerError("the answer is no compaction")
        return Draft(
            text=reply.raw.decode("utf-8", "surrogatepass"),
            model=caller.model,
            usage=reply.usage,
            cost=cost(reply.usage, facts) if reply.usage is not None else None,
            is_sealed=True,
        )
