"""From the configuration to a summarizer, or to none where rules are enough."""

from __future__ import annotations

from collections.abc import Callable

from proxy.config import Config
from proxy.core.urls import join_upstream
from proxy.models import ModelLimits
from proxy.summaries.base import Summarizer
from proxy.summaries.custom import CustomSummarizer
from proxy.summaries.provider import ProviderSummarizer
from proxy.summaries.upstream import UpstreamOptions, UpstreamSummarizer
from proxy.upstream import Upstream

PATH = "/v1/chat/completions"
COMPACT_PATH = "/v1/responses/compact"


def build(config: Config, upstream: Upstream, limits: Callable[[str], ModelLimits]) -> Summarizer | None:
    """None is the digest: folds are told by rules alone. Raises `ConfigError`."""
    section = config.compaction
    if section.summarizer == "digest":
        return None
    if section.summarizer == "provider":
        return ProviderSummarizer(
            join_upstream(config.upstream.url, COMPACT_PATH, ""), config.upstream.key, upstream, limits
        )
    if section.summarizer != "upstream":
        return CustomSummarizer(section.summarizer)
    url = join_upstream(section.url or config.upstream.url, PATH, "")
    key = section.key or (config.upstream.key if not section.url else "")
    return UpstreamSummarizer(UpstreamOptions(url, section.model, key), upstream, limits)
