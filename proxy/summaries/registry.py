"""From the configuration to a summarizer, or to none where rules are enough."""

from __future__ import annotations

from collections.abc import Callable

from proxy.config import CompactionConfig, Config
from proxy.core.urls import check_base, join_upstream
from proxy.errors import ConfigError
from proxy.models import ModelLimits
from proxy.summaries.base import Summarizer
from proxy.summaries.custom import CustomSummarizer, load
from proxy.summaries.upstream import UpstreamOptions, UpstreamSummarizer
from proxy.upstream import Upstream

PATH = "/v1/chat/completions"


def build(config: Config, upstream: Upstream, limits: Callable[[str], ModelLimits]) -> Summarizer | None:
    """None is the digest: folds are told by rules alone. Raises `ConfigError`."""
    section = config.compaction
    if section.summarizer == "digest":
        return None
    if section.summarizer != "upstream":
        return CustomSummarizer(section.summarizer)
    url = join_upstream(section.url or config.upstream.url, PATH, "")
    key = section.key or (config.upstream.key if not section.url else "")
    return UpstreamSummarizer(UpstreamOptions(url, section.model, key), upstream, limits)


def check(section: CompactionConfig) -> None:
    """What `serve` and `check-config` refuse. Raises `ConfigError`."""
    if section.summarizer not in ("digest", "upstream"):
        load(section.summarizer)
    if section.summarizer != "upstream":
        for name in ("model", "url", "key_env"):
            if getattr(section, name):
                raise ConfigError(
                    f"compaction.{name} is set, but compaction.summarizer = {section.summarizer!r} does not use it",
                    hint='Write summarizer = "upstream", or take the setting out.',
                )
    if section.url:
        check_base(section.url)
        if not section.key_env:
            raise ConfigError(
                "compaction.url names another provider, which must not get the clients' own keys",
                hint="Name an environment variable with a key for it in compaction.key_env.",
            )
    if section.key_env and not section.key:
        raise ConfigError(
            f"compaction.key_env = {section.key_env!r}, but that environment variable is empty",
            hint="Put the key into it, or leave key_env empty to use the client's own key.",
        )
    if section.wait_s > section.deadline_s:
        raise ConfigError(
            f"compaction.wait_s = {section.wait_s:g} is longer than compaction.deadline_s = {section.deadline_s:g}",
            hint="A turn should wait for a moment only; one or two seconds are usual.",
        )
